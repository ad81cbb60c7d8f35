"""From a claimed mail to what its server says of each recipient; it begins in ``send``."""
