from __future__ import annotations

from pathlib import Path

import pytest

from ove_sb3.experiments import settings
from ove_sb3.experiments.__main__ import choose_sizes, main
from ove_sb3.experiments.runner import StudyResult, Truth
from ove_sb3.experiments.settings import FULL, GRIDWORLD, QUICK, Sizes, Study
from ove_sb3.experiments.tables import bound_rows
from ove_sb3.experiments.trials import run_trial

from .small import BANDIT, diagonal_policy


def test_the_command_prints_and_writes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(settings, "STUDIES", {"bandit": BANDIT})
    size = ["--trials", "3", "--n", "200", "50", "--jobs", "1", "--seed", "7", "--quiet"]
    assert main(["recommender", *size, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "CI (paper)" in printed.out
    assert "3 trials" in printed.out
    written = {path.name for path in (tmp_path / "bandit").iterdir()}
    names = {"bounds.csv", "estimates.csv", "risk.csv", "trials.parquet", "settings.json"}
    assert written == names | {"figure_a.png", "figure_b.png", "figure_c.png"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["nowhere"],
        ["--trials", "0"],
        ["--n", "1"],
        ["--jobs", "0"],
        ["--truth", "0"],
        ["--n", "many"],
    ],
)
def test_bad_arguments_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_sizes_are_chosen() -> None:
    assert choose_sizes(full=False, trials=None, n=None) == QUICK
    assert choose_sizes(full=True, trials=None, n=None) == FULL
    assert choose_sizes(full=True, trials=7, n=[30, 20, 30]).n_grid == (20, 30)
    assert choose_sizes(full=True, trials=7, n=None).n_trials == 7


@pytest.mark.parametrize(
    ("study", "candidate"),
    [(BANDIT, [[0.005, 0.985, 0.002, 0.005, 0.003]]), (GRIDWORLD, diagonal_policy())],
    ids=["recommender", "gridworld"],
)
@pytest.mark.parametrize("n_trials", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_guaranteed_bounds_hold(study: Study, candidate: list[list[float]], n_trials: int) -> None:
    from ove_sb3.experiments.domains import make_domain

    domain = make_domain(study, candidate)
    moments = domain.exact_moments()
    assert moments is not None
    sizes = Sizes(n_trials=n_trials, n_grid=(100, 400), truth_episodes=0)
    cells = [
        cell
        for trial in range(sizes.n_trials)
        for cell in run_trial(study, candidate, sizes.n_grid, 0, trial)
    ]
    rows = bound_rows(StudyResult(study, sizes, 0, Truth(*moments), domain.candidate, cells))
    guaranteed = [row for row in rows if row["guaranteed"]]
    assert len(guaranteed) == 2 * 5
    for row in guaranteed:
        assert min(row["p_lower"], row["p_upper"]) > 0.001, row
