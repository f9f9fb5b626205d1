"""The command line, ``ove-sb3``."""

from __future__ import annotations

import sys
import traceback

FAILED = 3


def main() -> None:
    """Run the command line, or say which package is missing."""
    try:
        from .app import app
    except ImportError as error:
        if error.name in ("typer", "rich"):
            print(
                f"error: ove-sb3 needs {error.name}. Install it: pip install 'ove-sb3[cli]'.",
                file=sys.stderr,
            )
        else:
            traceback.print_exc()
        sys.exit(FAILED)
    app()
