"""Action distributions of policies, built-in policies, and log-probabilities of logged actions."""
