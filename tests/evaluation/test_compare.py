"""compare(): order, and bounds that hold for all candidates at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest
from stable_baselines3 import PPO

import ove_sb3 as ove

from .corridor import GAMMA, choices, exact_moments, make_model, simulate


@pytest.fixture(scope="module")
def models(behavior: PPO, candidate: PPO) -> dict[str, PPO]:
    return {"same": behavior, "new": candidate, "far": make_model(1)}


def test_delta_is_split_over_candidates_and_quantities(
    data: ove.Trajectories, models: dict[str, PPO]
) -> None:
    found = ove.compare(data, models, gamma=GAMMA, delta=0.12)
    assert len(found) == 3
    for name, model in models.items():
        alone = ove.evaluate(data, model, gamma=GAMMA, delta=0.02)
        assert found[name].intervals == alone.intervals
        assert found[name].mean_intervals == alone.mean_intervals
        assert found[name].variance == alone.variance


def test_ranking(data: ove.Trajectories, models: dict[str, PPO]) -> None:
    by_variance = ove.compare(data, models, gamma=GAMMA)
    uppers = [found.intervals["guaranteed"].upper for found in by_variance.evaluations.values()]
    assert uppers == sorted(uppers)
    by_mean = ove.compare(data, models, gamma=GAMMA, rank_by="mean")
    lowers = [found.mean_intervals["guaranteed"].lower for found in by_mean.evaluations.values()]
    assert lowers == sorted(lowers, reverse=True)
    assert list(by_mean.evaluations) != list(by_variance.evaluations)


def test_what_is_proven() -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=4000)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((4000, 1)),
        actions=actions,
        log_probs=np.full(4000, np.log(0.5)),
        rewards=actions * rng.choice([0.0, 1.0], size=4000),
        lengths=np.ones(4000, dtype=int),
    )
    candidates = {f"p{p}": np.log(np.where(actions == 1, p, 1 - p)) for p in (0.9, 0.85, 0.02)}
    options = {"gamma": 1.0, "reward_range": (0.0, 1.0), "horizon": 1}
    found = ove.compare(data, candidates, **options)  # type: ignore[arg-type]
    assert found.best == "p0.02"
    assert set(found.proven) == {("p0.02", "p0.85"), ("p0.02", "p0.9")}
    assert "p0.02 has a smaller variance than p0.9" in str(found)
    by_mean = ove.compare(data, candidates, rank_by="mean", **options)  # type: ignore[arg-type]
    assert set(by_mean.proven) == {("p0.85", "p0.02"), ("p0.9", "p0.02")}
    for p in (0.9, 0.85, 0.02):
        assert p / 2 * (1 - p / 2) in found[f"p{p}"].intervals["guaranteed"]


def test_all_bounds_hold_together() -> None:
    behavior = make_model(0, 0.4)
    models = {str(seed): make_model(seed, 0.4) for seed in (2, 3, 4)}
    truths = {name: exact_moments(choices(model)) for name, model in models.items()}
    missed = 0
    for trial in range(40):
        found = ove.compare(
            simulate(choices(behavior), 150, seed=trial), models, gamma=GAMMA, delta=0.2
        )
        missed += not all(
            mean in found[name].mean_intervals["guaranteed"]
            and variance in found[name].intervals["guaranteed"]
            for name, (mean, variance) in truths.items()
        )
    assert binomtest(missed, 40, 0.2, alternative="greater").pvalue > 1e-3


def test_text_and_dict(data: ove.Trajectories, models: dict[str, PPO]) -> None:
    found = ove.compare(data, models, gamma=GAMMA)
    lines = str(found).splitlines()
    assert lines[0].startswith("return of 3 candidates, judged by 600 episodes of Corridor-v0")
    assert [line.split()[:2] for line in lines[3:6]] == [
        [str(rank), name] for rank, name in enumerate(found.evaluations, start=1)
    ]
    assert "all bounds in this table hold together with 95%" in str(found)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["ranking"] == list(found.evaluations)
    assert plain["evaluations"]["new"]["variance"] == found["new"].variance


def test_saved_models_with_their_classes(
    data: ove.Trajectories, models: dict[str, PPO], tmp_path: Path
) -> None:
    models["new"].save(tmp_path / "new")
    mixed = {"new": tmp_path / "new.zip", "same": models["same"]}
    one = ove.compare(data, mixed, gamma=GAMMA, model_class=PPO)
    named = ove.compare(data, mixed, gamma=GAMMA, model_class={"new": PPO})
    assert one.to_dict() == named.to_dict()
    with pytest.raises(ove.InvalidInputError, match=r"`candidates\['new'\]` is a path, got None"):
        ove.compare(data, mixed, gamma=GAMMA, model_class={"other": PPO})


def test_bad_input(data: ove.Trajectories, models: dict[str, PPO]) -> None:
    with pytest.raises(ove.InvalidInputError, match="at least one entry"):
        ove.compare(data, {}, gamma=GAMMA)
    with pytest.raises(ove.InvalidInputError, match="mapping"):
        ove.compare(data, list(models.values()), gamma=GAMMA)  # type: ignore[arg-type]
    with pytest.raises(ove.InvalidInputError, match="`rank_by` must be one of"):
        ove.compare(data, models, gamma=GAMMA, rank_by="ess")


def test_the_candidate_with_other_spaces_is_named(
    data: ove.Trajectories, models: dict[str, PPO]
) -> None:
    other = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    with pytest.raises(ove.InvalidInputError, match=r"`candidates\['cart'\]` does not fit"):
        ove.compare(data, {**models, "cart": other}, gamma=GAMMA)
