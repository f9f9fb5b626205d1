"""What a user would pick instead, side by side on the same data: ``make bench-peers``."""
