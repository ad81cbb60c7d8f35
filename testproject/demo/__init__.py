"""``python -m testproject.demo``: queue a thousand mails, kill a worker, and count."""
