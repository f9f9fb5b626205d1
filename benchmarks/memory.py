"""Memory of this process.

The peak is read from the kernel's record of the address space. ``ru_maxrss`` would not do: a new
process starts with that of the process that started it.
"""

from __future__ import annotations

import re
from pathlib import Path


def resident() -> int:
    """Memory in use now, in bytes."""
    return _status("VmRSS")


def peak() -> int:
    """The most memory that was in use at any time, in bytes."""
    return _status("VmHWM")


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    match = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    assert match is not None
    return 1024 * int(match[1])
