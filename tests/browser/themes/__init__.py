"""The project with another theme of the admin, in a process of its own."""
