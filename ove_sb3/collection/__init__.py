"""Logging episodes with the probability of every action."""
