"""The statistical core: arrays in, estimates and intervals out.

Nothing here knows of policies or environments, and nothing here imports torch, stable-baselines3
or gymnasium.
"""
