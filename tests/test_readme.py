"""The README, followed from a clean directory with nothing but the built wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.first_screen import blocks, commands

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
NOT_SOURCE = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")


def test_every_command_of_the_readme_is_followed() -> None:
    followed = [line for kind, text in blocks(README) if kind == "sh" for line in commands(text)]
    assert followed
    assert all(line.startswith("ove-sb3 ") for line in followed)


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel in an environment of its own; its requirements are those installed here."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=NOT_SOURCE)
    pip = [sys.executable, "-m", "pip"]
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*pip, *build, str(folder / "source")], check=True)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    # Their directories only, not their .pth files: the package itself must come from the wheel.
    here = [entry for entry in sys.path if "site-packages" in entry]
    (purelib / "requirements.pth").write_text("\n".join(here) + "\n")
    (wheel,) = folder.glob("*.whl")
    install = ["install", "--quiet", "--no-deps", "--force-reinstall", str(wheel)]
    subprocess.run([python, "-m", "pip", *install], check=True)
    place = subprocess.run(
        [python, "-c", "import ove_sb3, ove_sb3.envs; print(ove_sb3.__file__)"],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert Path(place.stdout.strip()).is_relative_to(purelib)
    return python


@pytest.mark.slow
def test_the_readme_works_with_the_wheel(interpreter: Path, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    shutil.copy(README, page)
    script = shutil.copy(Path(__file__).with_name("first_screen.py"), tmp_path)
    done = subprocess.run(
        [interpreter, script, page, "--whole"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    assert "variance <= 20000: proven" in done.stdout
    assert "whole page: " in done.stdout
