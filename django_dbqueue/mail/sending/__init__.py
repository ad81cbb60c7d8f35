"""From a claimed message to what its server says of each recipient; it begins in ``send``."""
