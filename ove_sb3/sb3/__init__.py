"""The side that knows torch, gymnasium and stable-baselines3: laws of actions, and logging."""
