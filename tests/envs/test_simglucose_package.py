import importlib.util
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

from ove_sb3.envs import DiabetesEnv
from ove_sb3.envs.diabetes import simglucose_package as package


def test_loading_restores_sys_modules() -> None:
    package.load_simulator.cache_clear()
    before = dict(sys.modules)
    simulator = package.load_simulator()
    assert simulator.patient.__module__ == "simglucose.patient.t1dpatient"
    assert not [name for name in sys.modules if name.split(".")[0] == "simglucose"]
    for name in ("pkg_resources", "matplotlib", "matplotlib.pyplot", "gym"):
        assert sys.modules.get(name) is before.get(name)


def test_loading_keeps_modules_of_a_regular_import(monkeypatch: pytest.MonkeyPatch) -> None:
    regular = type(sys)("simglucose")
    monkeypatch.setitem(sys.modules, "simglucose", regular)
    package.load_simulator.cache_clear()
    package.load_simulator()
    assert sys.modules["simglucose"] is regular


def test_tables_equal_those_read_by_pandas() -> None:
    table = package.read_table("vpatient_params")
    frame = pd.read_csv(package.package_folder() / "params" / "vpatient_params.csv")
    assert list(table) == list(frame.Name)
    assert len(table) == 30
    row = frame.iloc[12]
    for column in frame.columns[1:]:
        assert table[row.Name][column] == float(row[column])


@pytest.fixture
def _without_simglucose(monkeypatch: pytest.MonkeyPatch) -> Any:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "simglucose" else find(name)
    )
    caches = (package.package_folder, package.read_table, package.load_simulator)
    for function in caches:
        function.cache_clear()
    yield
    for function in caches:
        function.cache_clear()


@pytest.mark.usefixtures("_without_simglucose")
@pytest.mark.parametrize("backend", ["fast", "simglucose"])
def test_error_without_simglucose_contains_the_install_command(backend: str) -> None:
    with pytest.raises(
        gym.error.DependencyNotInstalled, match=r"pip install --no-deps simglucose==0\.2\.11"
    ):
        DiabetesEnv(backend=backend)


def test_error_for_an_unknown_name_lists_the_known_ones() -> None:
    for kind, known in (("patient", "child#010"), ("sensor", "Dexcom"), ("pump", "Insulet")):
        with pytest.raises(ValueError, match=f"`{kind}` must be one of .*{known}.*got 'nobody'"):
            package.look_up(kind, "nobody")


def test_package_folder_contains_the_tables() -> None:
    assert (Path(package.package_folder()) / "params" / "pump_params.csv").is_file()
    assert np.isfinite(list(package.look_up("pump", "Insulet").values())).all()
