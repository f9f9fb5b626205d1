"""Package files from the package registry, kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Archive:
    """A published package file.

    Attributes
    ----------
    requirement : str
        Name and version.
    file : str
        Name of the file.
    sha256 : str
        Digest of the file; a file with another digest is refused.
    options : tuple of str
        Further options of ``pip download``.
    """

    requirement: str
    file: str
    sha256: str
    options: tuple[str, ...] = ()

    def path(self, folder: Path | None = None) -> Path:
        """The file in the cache folder, downloaded by pip if it is not there yet."""
        folder = cache_folder() if folder is None else folder
        path = folder / self.file
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as fresh:
                _pip_download(self.requirement, self.options, Path(fresh))
                self.check(Path(fresh, self.file))
                shutil.move(Path(fresh, self.file), path)
        self.check(path)
        return path

    def check(self, path: Path) -> None:
        """Raise an error if the file does not have the digest."""
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != self.sha256:
            raise RuntimeError(
                f"{path.name} of {self.requirement} must have the SHA-256 digest {self.sha256}, "
                f"got {digest}. Delete it to download it again."
            )

    def read(self, member: str, folder: Path | None = None) -> bytes:
        """Contents of one file of the archive."""
        path = self.path(folder)
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                return wheel.read(member)
        with tarfile.open(path) as source:
            file = source.extractfile(member)
            if file is None:
                raise KeyError(member)
            return file.read()


def cache_folder() -> Path:
    """Folder of the downloaded files: ``ove_sb3/public`` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "ove_sb3", "public")


def _pip_download(requirement: str, options: Sequence[str], folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options]
    done = subprocess.run(
        [*command, "--dest", str(folder), requirement], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"pip could not download {requirement}:\n{done.stderr.strip()}")
