"""System checks: what would make a queue lose, hide or slow down jobs."""
