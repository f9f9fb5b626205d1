"""Test martingales: bet targets and the capital process."""
