"""Concentration inequalities and the moment bounds built on them."""
