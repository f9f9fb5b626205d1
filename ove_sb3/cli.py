"""The command ``ove-sb3``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .core.errors import OveError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="ove-sb3", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compact = commands.add_parser(
        "compact", help="turn the files of finished or killed loggers into Parquet"
    )
    compact.add_argument("path", help="directory of logged episodes")
    options = parser.parse_args(arguments)
    try:
        return _compact(options.path)
    except OveError as error:
        print(f"ove-sb3: {error}", file=sys.stderr)
        return 1


def _compact(path: str) -> int:
    from .data.storage import compact

    n = compact(path)
    print(f"{path}: {n} file{'' if n == 1 else 's'} turned into Parquet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
