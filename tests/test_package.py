"""Contents of the installed package, and modules that importing it loads."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

import ove_sb3
from ove_sb3.envs.diabetes.simglucose_package import INSTALL

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest needs it there

ROOT = Path(__file__).parent.parent
HEAVY = {"torch", "stable_baselines3", "sb3_contrib", "gymnasium", "gym"}


def modules_after(code: str) -> set[str]:
    """Top-level modules that are loaded after running `code` in a new interpreter."""
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in run.stdout.split()}


def test_importing_the_package_is_light() -> None:
    loaded = modules_after("import ove_sb3")
    assert "ove_sb3" in loaded
    assert not loaded & (HEAVY | {"numba", "scipy", "numpy", "matplotlib"})


def test_built_in_policies_load_no_torch() -> None:
    loaded = modules_after(
        """
import gymnasium as gym, numpy as np, ove_sb3 as ove
space = gym.spaces.Discrete(2)
uniform = ove.UniformPolicy(space, observation_space=gym.spaces.Discrete(2))
table = ove.TabularPolicy([[0.2, 0.8], [0.5, 0.5]])
soft = ove.SoftmaxPolicy([[0.0, 1.0], [2.0, 0.0]])
mixture = ove.MixturePolicy([table, soft, uniform], [0.5, 0.3, 0.2])
for policy in (uniform, table, soft, mixture, ove.EpsilonGreedyPolicy(table, 0.1)):
    assert policy.predict(np.array([0, 1]))[0].shape == (2,)
    assert len(ove.action_distribution(policy, np.array([0, 1]))) == 2
assert ove.UniformPolicy(space).predict(np.zeros(4))[0].shape == ()
"""
    )
    assert not loaded & {"torch", "stable_baselines3", "sb3_contrib"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


CORE = sorted((ROOT / "ove_sb3" / "core").rglob("*.py"))


def test_using_the_core_loads_no_framework() -> None:
    assert {path.parent.name for path in CORE} >= {"core", "quantities", "estimators", "methods"}
    every_core_module = "\n".join(f"import {module_name(path)}" for path in CORE)
    assert not modules_after(every_core_module) & HEAVY


@pytest.mark.parametrize("path", CORE, ids=str)
def test_the_core_names_no_framework(path: Path) -> None:
    # Also inside functions, where an import would only show when the function is called.
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            assert node.level <= 1, "modules above the own folder are imported by their full name"
        for name in names:
            top, _, rest = name.partition(".")
            assert top not in HEAVY
            if top == "ove_sb3":  # the core imports nothing else from the rest of the package
                assert rest.split(".")[0] in (
                    "core",
                    "errors",
                    "_escape",
                    "_figure",
                    "_validation",
                ), name


def test_every_public_name_resolves() -> None:
    assert set(ove_sb3.__all__) == set(dir(ove_sb3))
    assert {"evaluate", "Trajectories", "Betting"} <= set(ove_sb3.__all__)
    for name in ove_sb3.__all__:
        value = getattr(ove_sb3, name)
        assert value.__doc__, f"{name} has no docstring"
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(ove_sb3, "nonsense")  # noqa: B009 (the type checker knows that there is none)


def packages() -> dict[str, Path]:
    """Packages named in pyproject.toml and their folders."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = settings["package-dir"]
    found = {}
    for package in settings["packages"]:
        parts = package.split(".")
        for depth in range(len(parts), 0, -1):
            prefix = ".".join(parts[:depth])
            if prefix in folders:
                found[package] = ROOT.joinpath(folders[prefix], *parts[depth:])
                break
    return found


def test_the_list_of_packages_is_complete() -> None:
    listed = set(packages().values())
    present = {
        path.parent
        for top in ("ove_sb3", "envs", "experiments")
        for path in (ROOT / top).rglob("__init__.py")
    }
    assert listed == present


def test_the_wheel_holds_one_top_level_package(tmp_path: Path) -> None:
    # From a copy: building in place would leave a `build` folder behind.
    source = tmp_path / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    for name in filter(None, tracked):
        if (ROOT / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)], check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"ove_sb3"}
    assert {"ove_sb3/py.typed", "ove_sb3/__init__.pyi"} <= set(names)
    for package in packages():
        assert f"{package.replace('.', '/')}/__init__.py" in names


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == ove_sb3.__version__
    assert f"## {ove_sb3.__version__.split('.dev')[0]}" in (ROOT / "CHANGELOG.md").read_text()


def test_extras_and_plain_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {"sb3-contrib", "minari", "distributed", "s3", "diabetes", "docs", "all", "dev"}
    assert set(project["optional-dependencies"]) == extras
    plain = {re.split(r"[<>=]", entry)[0] for entry in project["dependencies"]}
    assert plain >= {"typer", "rich", "tqdm", "joblib", "pandas", "matplotlib"}
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in (10, 11, 12, 13)}
    assert versions <= set(project["classifiers"])


# Keys of format 1.2.0 that the file uses, by object: the required ones, then others.
CITATION_KEYS = {
    "file": ("cff-version message title authors", "type license version references"),
    "reference": ("authors title type", "year conference"),
    "person": ("family-names given-names", ""),
    "entity": ("name", ""),
}


def check_keys(kind: str, value: dict[str, object]) -> None:
    required, optional = (set(names.split()) for names in CITATION_KEYS[kind])
    assert required <= set(value) <= required | optional, (kind, value)


def test_the_citation_is_valid() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    check_keys("file", citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["version"] == ove_sb3.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["license"] == project["license"]
    assert citation["title"].startswith("ove_sb3: ")
    for reference in citation["references"]:
        check_keys("reference", reference)
        check_keys("entity", reference["conference"])
        assert (reference["type"], type(reference["year"])) == ("conference-paper", int)
    for author in citation["authors"] + [a for r in citation["references"] for a in r["authors"]]:
        check_keys("entity" if "name" in author else "person", author)
        assert all(isinstance(value, str) and value for value in author.values())
    entry = (ROOT / "docs" / "citation.md").read_text()
    assert f"title     = {{{citation['references'][0]['title']}}}" in entry


def test_the_extra_for_diabetes_and_the_way_around_it() -> None:
    """The extra selects gymnasium 0.29.1; README and error message tell how to keep a newer one."""
    (pinned,) = [e for e in importlib.metadata.requires("simglucose") or [] if "gymnasium" in e]
    assert SpecifierSet("~=0.29.1") == SpecifierSet(re.sub(r"[^~=<>.\d]", "", pinned))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (simulator,) = extras["optional-dependencies"]["diabetes"]
    command = f"pip install --no-deps {simulator}"
    assert command == INSTALL  # shown by the error, see tests/envs/test_simglucose_package.py
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert (
        f"`diabetes` selects gymnasium 0.29.1, which its simulator pins. To keep gymnasium 1.x, "
        f"install the simulator by `{command}` instead." in readme
    )
