"""Fuzzing of the public entry points."""
