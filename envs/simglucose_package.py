"""The installed simglucose: its parameter tables, and its modules without its package ``__init__``.

simglucose 0.2.11 holds the virtual patients and the reference simulator. Importing it the ordinary
way needs gym 0.9 (its ``__init__`` registers an environment there) and ``pkg_resources``, which
setuptools no longer ships; the modules for patient, sensor, pump and scenario need neither.
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

INSTALL = "pip install --no-deps simglucose==0.2.11"

_LOCK = threading.Lock()


@cache
def package_folder() -> Path:
    """The folder simglucose is installed in.

    Raises
    ------
    gymnasium.error.DependencyNotInstalled
        If it is not installed; the message says how to.
    """
    spec = importlib.util.find_spec("simglucose")
    if spec is None or not spec.submodule_search_locations:
        raise DependencyNotInstalled(
            "The diabetes environment takes its virtual patients from simglucose, which is not "
            f"installed. Run:  {INSTALL}  (with --no-deps, because simglucose pins gym 0.9.4 "
            "and gymnasium 0.29 without needing them here)."
        )
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def read_table(name: str) -> dict[str, dict[str, float]]:
    """A parameter file as ``{name: {column: value}}``, in the order of the file.

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
    """The parameters of one patient, sensor or pump.

    Parameters
    ----------
    kind
        ``"patient"``, ``"sensor"`` or ``"pump"``.
    name
        Its name in simglucose.

    Raises
    ------
    ValueError
        If there is none of that name; the message lists those there are.
    """
    table = read_table("vpatient_params" if kind == "patient" else f"{kind}_params")
    if name not in table:
        raise ValueError(f"`{kind}` must be one of {', '.join(table)}; got {name!r}.")
    return table[name]


class Simulator(NamedTuple):
    """The classes of simglucose that make up a simulated day."""

    patient: Any  # T1DPatient
    sensor: Any  # CGMSensor
    pump: Any  # InsulinPump
    scenario: Any  # CustomScenario
    random_scenario: Any  # RandomScenario
    noise: Any  # CGMNoise
    environment: Any  # T1DSimEnv
    action: Any  # the controller's (basal, bolus)


@cache
def load_simulator() -> Simulator:
    """Import simglucose's modules without executing its ``__init__``.

    Nothing stays behind in ``sys.modules``: a later ``import simglucose`` is the ordinary one.

    Raises
    ------
    gymnasium.error.DependencyNotInstalled
        If simglucose, or pandas which it imports, is missing.
    """
    folder = package_folder()
    if importlib.util.find_spec("pandas") is None:
        raise DependencyNotInstalled(
            'backend="simglucose" needs pandas, which simglucose imports. Run:  pip install pandas'
        )
    with _LOCK, _stand_ins(folder):
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
def _stand_ins(folder: Path) -> Iterator[None]:
    """While it lasts, simglucose is a bare package and its unused imports are hollow."""

    def is_ours(name: str) -> bool:
        return name == "simglucose" or name.startswith("simglucose.")

    package = types.ModuleType("simglucose")
    package.__path__ = [str(folder)]
    resources = types.ModuleType("pkg_resources")
    resources.resource_filename = lambda _, path: str(folder / path)  # type: ignore[attr-defined]
    rendering = types.ModuleType("simglucose.simulation.rendering")
    rendering.Viewer = None  # type: ignore[attr-defined]
    hollow = {
        "simglucose": package,
        "simglucose.simulation.rendering": rendering,
        "pkg_resources": resources,
    }
    if "matplotlib.pyplot" not in sys.modules:  # imported by the noise generator, never used
        matplotlib = types.ModuleType("matplotlib")
        pyplot = types.ModuleType("matplotlib.pyplot")
        matplotlib.pyplot = pyplot  # type: ignore[attr-defined]
        hollow |= {"matplotlib": matplotlib, "matplotlib.pyplot": pyplot}
    before = {name: module for name, module in sys.modules.items() if is_ours(name)}
    before |= {name: sys.modules[name] for name in hollow if name in sys.modules}
    for name in before:
        del sys.modules[name]
    sys.modules.update(hollow)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if is_ours(name) or name in hollow]:
            del sys.modules[name]
        sys.modules.update(before)
