"""Action distributions of stable-baselines3 and sb3-contrib models."""
