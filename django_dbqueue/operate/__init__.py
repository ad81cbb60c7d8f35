"""What people do to queues, by the admin and by the command line alike."""
