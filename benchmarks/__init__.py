"""How fast this library drains a queue, beside others, on the same server in one run."""
