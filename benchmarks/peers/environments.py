"""A virtual environment for each peer, with pinned versions that work together."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """Requirements of a peer.

    Parameters
    ----------
    label : str
        Name and version, as shown in the tables.
    modules : tuple of str
        The modules of `benchmarks.peers.methods` that run in it.
    requirements : tuple of str
        Requirements installed with their dependencies.
    bare : tuple of str
        Requirements installed without their dependencies, which are outdated.
    sources : tuple of str
        Source distributions of which only the Python modules under ``src/`` are used.
    own : bool
        Whether it runs in the project's own environment.
    """

    label: str
    modules: tuple[str, ...]
    requirements: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    own: bool = False

    @property
    def pins(self) -> tuple[str, ...]:
        """All requirements that are installed."""
        return (*self.requirements, *self.bare, *self.sources)


class InstallationError(Exception):
    """A peer's environment could not be built; the message says why."""


_NUMPY_1 = (
    "numpy==1.26.4",
    "scipy==1.13.1",
    "pandas==2.2.3",
    "scikit-learn==1.5.2",
    "matplotlib==3.8.4",
    "seaborn==0.13.2",
    "torch==2.13.0",
    "tqdm==4.70.1",
)
ENVIRONMENTS = {
    "ours": Environment("ove_sb3", ("ours",), own=True),
    "paper": Environment("the paper, numpy", ("paper_formulas",), ("numpy==2.4.6",)),
    "scipy": Environment(
        "scipy.stats.bootstrap 1.17.1",
        ("scipy_bootstrap", "scipy_risk"),
        ("numpy==2.4.6", "scipy==1.17.1"),
    ),
    # It uses np.float_, which numpy 2 removed. The compiled modules need Boost; `betting` does not.
    "confseq": Environment(
        "confseq 0.0.11",
        ("confseq_betting",),
        ("numpy==1.26.4", "scipy==1.13.1", "matplotlib==3.8.4", "multiprocess==0.70.16"),
        sources=("confseq==0.0.11",),
    ),
    # gym 0.26 needs numpy 1; d3rlpy 2.1 removed names that SCOPE-RL imports.
    "scope_rl": Environment(
        "SCOPE-RL 0.2.1",
        ("scope_rl_cdf", "scope_rl_mean"),
        (
            *_NUMPY_1,
            "gym==0.26.2",
            "gymnasium==0.28.1",
            "hydra-core==1.3.2",
            "structlog==26.1.0",
            "colorama==0.4.6",
            "click==8.5.1",
            "h5py==3.16.0",
            "dataclasses-json==0.6.7",
        ),
        bare=("scope-rl==0.2.1", "d3rlpy==2.0.4", "pytorch-revgrad==0.2.0"),
    ),
    "obp": Environment(
        "OBP 0.4.1",
        ("obp_mean",),
        (*_NUMPY_1, "pyyaml==6.0.3", "mypy-extensions==1.1.0"),
        bare=("obp==0.4.1",),
    ),
    "vw_estimators": Environment(
        "vw-estimators 0.2.2",
        ("vw_mean",),
        ("numpy==2.4.6", "scipy==1.17.1", "vw-estimators==0.2.2"),
    ),
    "causalrl": Environment(
        "causalrl 3.0.0",
        ("causalrl_mean",),
        ("numpy==2.4.6", "gymnasium==1.4.0", "networkx==3.6.1", "causalrl==3.0.0"),
    ),
    "skdr_eval": Environment(
        "skdr-eval 0.12.0",
        ("skdr_mean",),
        (
            "numpy==2.4.6",
            "scipy==1.17.1",
            "pandas==3.1.1",
            "scikit-learn==1.9.1",
            "pydantic==2.14.3",
            "skdr-eval==0.12.0",
        ),
    ),
}


def build(name: str, environment: Environment, folder: Path) -> Path:
    """Return the interpreter of the environment, built on first use.

    Raises
    ------
    InstallationError
        With the last error message of the installer.
    """
    if environment.own:
        return Path(sys.executable)
    home = folder / name
    python, ready = home / "bin" / "python", home / ".ready"
    wanted = "\n".join(environment.pins)
    if ready.exists() and ready.read_text() == wanted:
        return python
    shutil.rmtree(home, ignore_errors=True)
    _call([sys.executable, "-m", "venv", str(home)])
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _call([*pip, "install", *environment.requirements])
    if environment.bare:
        _call([*pip, "install", "--no-deps", *environment.bare])
    for source in environment.sources:
        _install_modules(pip, source, _site_packages(python))
    ready.write_text(wanted)
    return python


def _install_modules(pip: list[str], source: str, target: Path) -> None:
    """Copy the Python modules of a source distribution without building it."""
    with tempfile.TemporaryDirectory() as scratch:
        # Build only this package from source; the tools that prepare its metadata may be wheels.
        package = source.partition("==")[0]
        options = ["--no-deps", "--no-binary", package, "--dest", scratch]
        _call([*pip, "download", *options, source])
        with tarfile.open(next(Path(scratch).glob("*.tar.gz"))) as archive:
            archive.extractall(scratch, filter="data")
        for package_folder in Path(scratch).glob("*/src/*/"):
            shutil.copytree(package_folder, target / package_folder.name, dirs_exist_ok=True)


def _site_packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(_call([str(python), "-c", code]).strip())


def _call(command: list[str]) -> str:
    """Run a command; if it fails, raise an error with the last line of its error output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InstallationError(str(error)) from error
    if done.returncode != 0:
        raise InstallationError(last_words(done.stderr) or f"exit code {done.returncode}")
    return done.stdout


def last_words(output: str) -> str:
    """The last line that starts with ERROR, or else the last line that is not blank."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1].removeprefix("ERROR:").strip()
