"""Code shared by the bundled environments."""
