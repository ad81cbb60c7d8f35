"""What waits, who works and what is wrong: one answer for the admin and the command line."""
