"""What is known of people comes to an end: a message is erased, a person is forgotten."""
