"""The command line, ``ove-sb3``."""

from __future__ import annotations

import sys

FAILED = 3


def main() -> None:
    """Run the command line, or say which package is missing."""
    try:
        from .app import app
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        print(
            f"error: ove-sb3 needs {missing}. Install it: pip install {missing}.", file=sys.stderr
        )
        sys.exit(FAILED)
    app(prog_name="ove-sb3")
