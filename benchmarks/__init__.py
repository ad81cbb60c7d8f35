"""How fast this library drains a queue, next to others, on the same server in one run."""
