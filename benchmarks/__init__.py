"""Speed, tightness and accuracy, measured side by side."""
