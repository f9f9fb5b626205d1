"""Speed, tightness and accuracy, measured on the same data."""
