"""``python -m ove_sb3`` is the command line ``ove-sb3``."""

from .cli import main

main()
