"""A message as text that every database takes, and back."""
