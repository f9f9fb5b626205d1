"""Results for the eye: a figure, and one self-contained page."""
