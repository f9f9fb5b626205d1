"""Logged episodes: in memory, on disk, and exchanged with other formats."""
