"""One module per peer; each runs in its peer's environment and imports only what is there."""
