"""One module for each environment; each runs there and imports nothing of the others' needs."""
