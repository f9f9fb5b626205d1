"""compare(): order, and bounds that hold for all candidates together."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest
from stable_baselines3 import PPO

import ove_sb3 as ove
from ove_sb3.core.quantities import MOMENTS
from tests.problems.corridor import GAMMA, choices, exact_moments, make_model, simulate

from .same import same_fields


@pytest.fixture(scope="module")
def models(behavior: PPO, candidate: PPO) -> dict[str, PPO]:
    return {"same": behavior, "new": candidate, "far": make_model(1)}


def test_delta_is_split_over_candidates_and_quantities(
    data: ove.Trajectories, models: dict[str, PPO]
) -> None:
    comparison = ove.compare(data, models, gamma=GAMMA, delta=0.12)
    assert len(comparison) == 3
    for name, model in models.items():
        alone = ove.evaluate(data, model, gamma=GAMMA, delta=0.02, quantities=MOMENTS)
        assert list(comparison[name].quantities) == list(alone.quantities)
        for quantity, one in comparison[name].quantities.items():
            same_fields(one, alone[quantity])


def test_ranking(data: ove.Trajectories, models: dict[str, PPO]) -> None:
    by_variance = ove.compare(data, models, gamma=GAMMA)
    uppers = [result["variance"].interval.upper for result in by_variance.evaluations.values()]
    assert uppers == sorted(uppers)
    by_mean = ove.compare(data, models, gamma=GAMMA, rank_by="mean")
    lowers = [result["mean"].interval.lower for result in by_mean.evaluations.values()]
    assert lowers == sorted(lowers, reverse=True)
    assert list(by_mean.evaluations) != list(by_variance.evaluations)


def bandit(
    n: int, *probabilities: float
) -> tuple[ove.Trajectories, dict[str, NDArray[np.float64]]]:
    """A log of one-step episodes, and candidates that take action 1 with these probabilities."""
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=n)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((n, 1)),
        actions=actions,
        log_probs=np.full(n, np.log(0.5)),
        rewards=actions * rng.choice([0.0, 1.0], size=n),
        lengths=np.ones(n, dtype=int),
        metadata={"horizon": 1, "reward_range": (0.0, 1.0)},
    )
    return data, {f"p{p}": np.log(np.where(actions == 1, p, 1 - p)) for p in probabilities}


def test_candidates_that_the_log_says_nothing_about_are_not_ranked() -> None:
    """Point estimates at an effective sample size of 3 once named a winner."""
    rng = np.random.default_rng(1)
    n, horizon = 400, 8
    actions = rng.integers(2, size=n * horizon)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((actions.size, 1)),
        actions=actions,
        log_probs=np.full(actions.size, np.log(0.5)),
        rewards=rng.random(actions.size),
        lengths=np.full(n, horizon),
        metadata={"horizon": horizon, "reward_range": (0.0, 1.0)},
    )
    with np.errstate(divide="ignore"):
        candidates = {f"always {a}": np.log((actions == a).astype(float)) for a in (0, 1)}
    for names in (list(candidates), list(candidates)[::-1]):
        for rank_by in ("variance", "mean"):
            given = {name: candidates[name] for name in names}
            comparison = ove.compare(data, given, gamma=1.0, rank_by=rank_by)
            assert all(
                1 < e.diagnostics.effective_sample_size < 8 for e in comparison.evaluations.values()
            )
            assert list(comparison.evaluations) == names
            assert comparison.ranking == []
            assert comparison.to_dict()["ranking"] == []
            assert comparison.best is None
            assert comparison.proven == []
            assert "none is ranked" in str(comparison)
    near = np.full(actions.size, np.log(0.5))
    mixed = ove.compare(data, {**candidates, "uniform": near}, gamma=1.0)
    assert mixed.ranking == ["uniform"]
    assert list(mixed.evaluations) == ["uniform", *candidates]
    assert mixed.best is None


def test_what_is_proven() -> None:
    data, candidates = bandit(4000, 0.9, 0.85, 0.02)
    comparison = ove.compare(data, candidates, gamma=1.0)
    assert comparison.best == "p0.02"
    assert set(comparison.proven) == {("p0.02", "p0.85"), ("p0.02", "p0.9")}
    assert "Proven: p0.02 has a smaller variance than p0.9." in str(comparison)
    assert "p0.02 has a smaller variance than all others, with 95% confidence." in str(comparison)
    by_mean = ove.compare(data, candidates, gamma=1.0, rank_by="mean")
    assert set(by_mean.proven) == {("p0.85", "p0.02"), ("p0.9", "p0.02")}
    assert "Proven: p0.9 has a larger mean than p0.02." in str(by_mean)
    for p in (0.9, 0.85, 0.02):
        assert p / 2 * (1 - p / 2) in comparison[f"p{p}"]["variance"].interval


def test_the_best_is_named_only_where_it_is_proven() -> None:
    data, candidates = bandit(4000, 0.9, 0.85, 0.02)
    separated = ove.compare(data, candidates, gamma=1.0)
    assert separated.best == "p0.02"
    assert separated.to_dict()["best"] == "p0.02"

    overlapping = ove.compare(data, candidates, gamma=1.0, rank_by="mean")
    assert overlapping.proven  # but not that one of the two others is the best
    assert overlapping.best is None
    assert overlapping.to_dict()["best"] is None
    assert "No candidate is proven best" in str(overlapping)

    alike = {name: candidates[name] for name in ("p0.9", "p0.85")}
    neither = ove.compare(data, alike, gamma=1.0)
    assert neither.proven == []
    assert neither.best is None
    alone = ove.compare(data, {"p0.02": candidates["p0.02"]}, gamma=1.0, approximate=None)
    assert alone.best is None

    kinds: list[dict[str, Any]] = [{"method": "bootstrap"}, {"reward_range": "from_data"}]
    for options in kinds:
        approximate = ove.compare(data, candidates, gamma=1.0, **options)
        first, *others = (
            result["variance"].interval for result in approximate.evaluations.values()
        )
        assert all(first.upper < other.lower for other in others)  # separated, but not guaranteed
        assert approximate.proven == []
        assert approximate.best is None
        assert "No candidate is proven best" in str(approximate)
        assert "hold simultaneously" not in str(approximate)


def test_an_interval_whose_bounds_contradict_each_other_proves_no_order() -> None:
    data, candidates = bandit(4000, 0.9, 0.02)
    comparison = ove.compare(data, candidates, gamma=1.0)
    assert comparison.best == "p0.02"
    result = comparison["p0.02"]
    one = result["variance"]
    crossed = replace(
        one.interval,
        lower=one.interval.upper,
        upper=one.interval.lower,
        consistent=False,
        guaranteed=False,
        reasons=("the lower bound exceeds the upper bound",),
    )
    broken = replace(
        result, quantities={**result.quantities, "variance": replace(one, interval=crossed)}
    )
    found = replace(comparison, evaluations={**comparison.evaluations, "p0.02": broken})
    assert found.proven == []
    assert found.best is None
    assert "No candidate is proven best" in str(found)
    assert "guaranteed" not in found.table.header[found.table.header.index("variance") + 1]


def test_candidates_that_satisfy_requirements() -> None:
    data, candidates = bandit(4000, 0.9, 0.85, 0.02)
    comparison = ove.compare(data, candidates, gamma=1.0)
    assert comparison.satisfying("variance <= 0.1") == ["p0.02"]
    assert comparison.satisfying("variance <= 0.3") == list(comparison.evaluations)
    assert comparison.satisfying("variance <= 0.1", "mean >= 0.3") == []
    assert set(comparison.satisfying("mean > 0.3")) == {"p0.9", "p0.85"}


def test_all_bounds_hold_together() -> None:
    behavior = make_model(0, 0.4)
    models = {str(seed): make_model(seed, 0.4) for seed in (2, 3, 4)}
    truths = {name: exact_moments(choices(model)) for name, model in models.items()}
    missed = 0
    for trial in range(40):
        comparison = ove.compare(
            simulate(choices(behavior), 150, seed=trial),
            models,
            gamma=GAMMA,
            delta=0.2,
            method=ove.Betting(n_shuffles=1),
        )
        missed += not all(
            mean in comparison[name]["mean"].interval
            and variance in comparison[name]["variance"].interval
            for name, (mean, variance) in truths.items()
        )
    assert binomtest(missed, 40, 0.2, alternative="greater").pvalue > 1e-3


def test_text_and_dict(data: ove.Trajectories, models: dict[str, PPO]) -> None:
    comparison = ove.compare(data, models, gamma=GAMMA)
    lines = str(comparison).splitlines()
    assert lines[0].startswith("Estimated return of 3 candidates from 600 episodes of Corridor-v0")
    assert lines[2:7] == comparison.table.lines()
    assert re.split(r" {2,}", lines[2]) == [
        "candidate",
        "mean",
        "guaranteed",
        "variance",
        "guaranteed",
        "standard deviation",
        "guaranteed",
        "ESS",
    ]
    assert [line.split()[0] for line in lines[3:7]] == [*comparison.evaluations, "(behavior)"]
    assert len({len(line) for line in lines[2:7]}) == 1, "aligned"
    assert "all intervals in this table hold simultaneously with 95%" in str(comparison)
    plain = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert plain["ranking"] == comparison.ranking
    informative = [
        n for n in comparison.evaluations if comparison[n]["variance"].interval.informative
    ]
    assert comparison.ranking == informative
    assert plain["rank_by"] == "variance"
    assert plain["delta"] == 0.05
    variance = plain["evaluations"]["new"]["quantities"]["variance"]["estimate"]
    assert variance == comparison["new"].variance


def test_saved_models_with_their_classes(
    data: ove.Trajectories, models: dict[str, PPO], tmp_path: Path
) -> None:
    models["new"].save(tmp_path / "new")
    mixed = {"new": tmp_path / "new.zip", "same": models["same"]}
    one = ove.compare(data, mixed, gamma=GAMMA, model_class=PPO)
    named = ove.compare(data, mixed, gamma=GAMMA, model_class={"new": PPO})
    assert one.to_dict() == named.to_dict()
    with pytest.raises(ove.InvalidInputError, match=r"`candidates\['new'\]` is a path, got None"):
        ove.compare(data, mixed, gamma=GAMMA, model_class={})


def test_a_saved_behavior_with_its_class(
    data: ove.Trajectories, models: dict[str, PPO], tmp_path: Path
) -> None:
    models["same"].save(tmp_path / "same")
    arguments: dict[str, Any] = {"gamma": GAMMA, "behavior": tmp_path / "same.zip"}
    named = ove.compare(data, models, model_class={"behavior": PPO}, **arguments)
    given = ove.compare(data, models, **{**arguments, "behavior": models["same"]})
    assert named.to_dict() == given.to_dict()
    with pytest.raises(ove.InvalidInputError, match=r"models that are paths, got \['behavior'\]"):
        ove.compare(data, models, gamma=GAMMA, model_class={"behavior": PPO})


def test_bad_input(data: ove.Trajectories, models: dict[str, PPO]) -> None:
    with pytest.raises(ove.InvalidInputError, match="at least one entry"):
        ove.compare(data, {}, gamma=GAMMA)
    with pytest.raises(ove.InvalidInputError, match="mapping"):
        ove.compare(data, list(models.values()), gamma=GAMMA)  # type: ignore[arg-type]
    with pytest.raises(ove.InvalidInputError, match="`rank_by` must be one of"):
        ove.compare(data, models, gamma=GAMMA, rank_by="ess")
    with pytest.raises(ove.InvalidInputError, match="'mean', which is not evaluated"):
        ove.compare(data, models, gamma=GAMMA, rank_by="mean", quantities=["variance"])


def test_the_candidate_with_other_spaces_is_named(
    data: ove.Trajectories, models: dict[str, PPO]
) -> None:
    other = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    with pytest.raises(ove.InvalidInputError, match=r"`candidates\['cart'\]` does not fit"):
        ove.compare(data, {**models, "cart": other}, gamma=GAMMA)
