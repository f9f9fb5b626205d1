"""The moment of use: what a log says about a candidate, and how sure that is."""
