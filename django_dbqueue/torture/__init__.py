"""Chaos with real processes, and the judge of what they noted."""
