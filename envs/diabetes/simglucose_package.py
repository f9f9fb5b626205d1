"""Parameter tables and modules of the installed simglucose package.

simglucose 0.2.11 contains the virtual patients and the reference simulator. A regular import
requires gym 0.9, because its ``__init__`` registers an environment there, and ``pkg_resources``,
which setuptools no longer includes. The modules for patient, sensor, pump and scenario require
neither, so they are imported without running ``__init__``.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gymnasium.error import DependencyNotInstalled

from ove_sb3._validation import check_choice

INSTALL = "pip install --no-deps simglucose==0.2.11"

_LOCK = threading.Lock()


@cache
def package_folder() -> Path:
    """Folder in which simglucose is installed.

    Raises
    ------
    gymnasium.error.DependencyNotInstalled
        If simglucose is not installed; the message contains the install command.
    """
    spec = importlib.util.find_spec("simglucose")
    if spec is None or not spec.submodule_search_locations:
        raise DependencyNotInstalled(
            "The diabetes environment reads its virtual patients from simglucose, which is not "
            f"installed. Run:  {INSTALL}  (with --no-deps, because simglucose pins gym 0.9.4 "
            "and gymnasium 0.29, which are not needed here)."
        )
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def read_table(name: str) -> dict[str, dict[str, float]]:
    """Parameter file as ``{name: {column: value}}``, in the order of the file.

    Parameters
    ----------
    name
        ``"vpatient_params"``, ``"sensor_params"`` or ``"pump_params"``.
    """
    with open(package_folder() / "params" / f"{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["Name"]: {column: float(value) for column, value in row.items() if column != "Name"}
        for row in rows
    }


def look_up(kind: str, name: str) -> dict[str, float]:
    """Parameters of one patient, sensor or pump.

    Parameters
    ----------
    kind
        ``"patient"``, ``"sensor"`` or ``"pump"``.
    name
        Name in simglucose.

    Raises
    ------
    InvalidInputError
        If the name is unknown; the message lists the known names.
    """
    table = read_table("vpatient_params" if kind == "patient" else f"{kind}_params")
    return table[check_choice(name, kind, table)]


class Simulator(NamedTuple):
    """Classes of simglucose needed to simulate a day."""

    patient: Any  # T1DPatient
    sensor: Any  # CGMSensor
    pump: Any  # InsulinPump
    scenario: Any  # CustomScenario
    random_scenario: Any  # RandomScenario
    noise: Any  # CGMNoise
    environment: Any  # T1DSimEnv
    action: Any  # Action(basal, bolus)


@cache
def load_simulator() -> Simulator:
    """Import simglucose's modules without running its ``__init__``.

    ``sys.modules`` is restored afterward, so that a later ``import simglucose`` is a regular one.

    Raises
    ------
    gymnasium.error.DependencyNotInstalled
        If simglucose is not installed.
    """
    folder = package_folder()
    with _LOCK, _stub_modules(folder):
        modules = {
            name: importlib.import_module(f"simglucose.{name}")
            for name in (
                "patient.t1dpatient",
                "sensor.cgm",
                "sensor.noise_gen",
                "actuator.pump",
                "simulation.scenario",
                "simulation.scenario_gen",
                "simulation.env",
                "controller.base",
            )
        }
    return Simulator(
        patient=modules["patient.t1dpatient"].T1DPatient,
        sensor=modules["sensor.cgm"].CGMSensor,
        pump=modules["actuator.pump"].InsulinPump,
        scenario=modules["simulation.scenario"].CustomScenario,
        random_scenario=modules["simulation.scenario_gen"].RandomScenario,
        noise=modules["sensor.noise_gen"].CGMNoise,
        environment=modules["simulation.env"].T1DSimEnv,
        action=modules["controller.base"].Action,
    )


@contextmanager
def _stub_modules(folder: Path) -> Iterator[None]:
    """Temporarily replace simglucose's ``__init__`` and its unused imports by empty modules."""

    def is_simglucose(name: str) -> bool:
        return name == "simglucose" or name.startswith("simglucose.")

    package = types.ModuleType("simglucose")
    package.__path__ = [str(folder)]
    resources = types.ModuleType("pkg_resources")
    resources.resource_filename = lambda _, path: str(folder / path)  # type: ignore[attr-defined]
    rendering = types.ModuleType("simglucose.simulation.rendering")
    rendering.Viewer = None  # type: ignore[attr-defined]
    stubs = {
        "simglucose": package,
        "simglucose.simulation.rendering": rendering,
        "pkg_resources": resources,
    }
    if "matplotlib.pyplot" not in sys.modules:  # imported by the noise generator, never used
        matplotlib = types.ModuleType("matplotlib")
        pyplot = types.ModuleType("matplotlib.pyplot")
        matplotlib.pyplot = pyplot  # type: ignore[attr-defined]
        stubs |= {"matplotlib": matplotlib, "matplotlib.pyplot": pyplot}
    before = {name: module for name, module in sys.modules.items() if is_simglucose(name)}
    before |= {name: sys.modules[name] for name in stubs if name in sys.modules}
    for name in before:
        del sys.modules[name]
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if is_simglucose(name) or name in stubs]:
            del sys.modules[name]
        sys.modules.update(before)
