"""Evaluation of candidates from a log: estimates, intervals and requirements."""
