"""The statistical core: arrays in, estimates and intervals out.

It does not depend on policies or environments, and imports neither torch, stable-baselines3 nor
gymnasium.
"""
