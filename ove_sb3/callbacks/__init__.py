"""Callbacks for stable-baselines3."""
