"""Logged episodes: the value that is passed on, its files, and its exchange with other formats."""
