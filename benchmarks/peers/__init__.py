"""Other libraries on the same data: ``make bench-peers``."""
