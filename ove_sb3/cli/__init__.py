"""The command line, ``ove-sb3``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what is missing."""
    try:
        from .app import app
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"ove-sb3 needs {error.name}. Install it: pip install 'ove-sb3[cli]'.")
    app()
