"""Headless Chromium: the page as rendered, pictures of it, and its network requests."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # whatever is asked for, nothing leaves this machine
)


def chromium(page: Path, work: Path, *options: str, query: str = "") -> str:
    """Open `page` with an empty profile; return what Chromium prints."""
    program = shutil.which("chromium")
    assert program, "Install Debian's chromium: apt-get install chromium."
    profile = work / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    profile.mkdir(parents=True)
    address = f"{page.absolute().as_uri()}{'?' if query else ''}{query}"
    command = [program, *FLAGS, f"--user-data-dir={profile}", *options, address]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return found.stdout


def screenshot(
    page: Path,
    picture: Path,
    work: Path,
    size: tuple[int, int],
    *more: str,
    query: str = "",
) -> None:
    """A picture of the top of the page in a window of this size."""
    window = f"--window-size={size[0]},{size[1]}"
    chromium(page, work, window, f"--screenshot={picture.absolute()}", *more, query=query)


def requests(page: Path, work: Path) -> list[str]:
    """URLs that the page requested, from the browser's own network log.

    Requests that Chromium makes on its own (the time, its accounts) are left out.
    """
    log = work / "network.json"
    chromium(page, work, f"--log-net-log={log}", "--dump-dom")
    found = json.loads(log.read_text())
    started = found["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    return [
        event["params"]["url"]
        for event in found["events"]
        if event["type"] == started
        and "url" in event.get("params", {})
        and event["params"].get("initiator") != "not an origin"
    ]
