"""Tables that become queue tables, and queue tables that get another name."""
