"""Episodes of a behavior that learned are joined and read in the order of logging, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ove_sb3 as ove

N = 40
Trajectories = ove.Trajectories


def logged(n: int = N, *, adaptive: bool = True) -> Trajectories:
    """Episodes of 1 step by a fair coin; the reward is the number of the episode."""
    return Trajectories.from_arrays(
        observations=np.zeros((n, 1)),
        actions=np.arange(n) % 2,
        log_probs=np.full(n, np.log(0.5)),
        rewards=np.arange(n) / n,
        lengths=np.ones(n, int),
        metadata={"adaptive": adaptive, "log_ids": ["run 7"], "horizon": 1},
    )


OUT_OF_ORDER: dict[str, Callable[[Trajectories], list[Trajectories]]] = {
    "halves": lambda d: [d[20:], d[:20]],
    "split": lambda d: [*reversed(d.split(0.5))],
    "every second": lambda d: [d[::2], d[1::2]],
    "shuffled split": lambda d: [*d.split(0.5, rng=0)],
    "episodes": lambda d: [d[3], d[1]],
    "another log in between": lambda d: [d[20:], logged(5), d[:20]],
    "joined before": lambda d: [Trajectories.concat([d[5:9], logged(5)]), d[:5]],
}
IN_ORDER: dict[str, Callable[[Trajectories], list[Trajectories]]] = {
    "halves": lambda d: [d[:20], d[20:]],
    "split": lambda d: [*d.split(0.5)],
    "episodes": lambda d: [*d],
    "another log in between": lambda d: [d[:20], logged(5, adaptive=False), d[20:]],
}


@pytest.mark.parametrize("case", OUT_OF_ORDER)
def test_parts_in_another_order_are_refused(case: str, tmp_path: Path) -> None:
    parts = OUT_OF_ORDER[case](logged())
    with pytest.raises(
        ove.InvalidInputError, match=r"`parts` must keep the order of logging, .* Join the parts"
    ):
        Trajectories.concat(parts)
    *first, last = parts
    with ove.EpisodeWriter(tmp_path, logged().metadata) as writer:
        for part in first:
            writer.add(part)
        with pytest.raises(ove.InvalidInputError, match="`episodes` must keep the order"):
            writer.add(last)
    assert len(Trajectories.load(tmp_path)) == sum(map(len, first))
    fixed = Trajectories.concat(OUT_OF_ORDER["halves"](logged(adaptive=False)))
    assert len(fixed) == N


@pytest.mark.parametrize("case", IN_ORDER)
def test_parts_in_order_are_joined(case: str) -> None:
    joined = Trajectories.concat(IN_ORDER[case](logged()))
    assert joined.metadata.adaptive
    assert not joined.metadata.selected_episodes


def test_repeated_parts_have_estimates_still() -> None:
    data = logged()
    joined = Trajectories.concat([data[10:], data[:20]])
    assert joined.metadata.repeated_episodes
    assert Trajectories.concat([logged(5), joined]).metadata.repeated_episodes
    assert Trajectories.concat([data[5:], joined]).metadata.repeated_episodes


def frame(names: Any) -> pd.DataFrame:
    rewards = np.arange(len(names)) / len(names)
    return pd.DataFrame({"episode_id": names, "step": 0, "p_old": 0.5, "reward": rewards})


@pytest.mark.parametrize("step", [None, "step"])
@pytest.mark.parametrize("kind", ["strings", "categories", "dates"])
def test_names_of_another_order_are_refused(kind: str, step: str | None) -> None:
    strings = [str(i) for i in range(N)]
    names = {
        "strings": strings,
        "categories": pd.Categorical(strings),
        "dates": pd.date_range("2024-01-01", periods=N),
    }[kind]
    own = frame(names)
    for metadata in ({"adaptive": True}, ove.Metadata(adaptive=True)):
        with pytest.raises(
            ove.InvalidInputError,
            match=r"column 'episode_id' must number the episodes in the order",
        ):
            Trajectories.from_table(own, step=step, metadata=metadata)
    assert len(Trajectories.from_table(own, step=step, metadata={"adaptive": False})) == N


def test_numbers_are_the_order_of_logging() -> None:
    for names in (np.arange(N), np.arange(N) * 1.0, pd.Categorical(np.arange(N))):
        shuffled = frame(names).sample(frac=1.0, random_state=0)
        data = Trajectories.from_table(shuffled, metadata={"adaptive": True})
        np.testing.assert_array_equal(data.rewards, np.arange(N) / N)


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_table_with_other_numbers_is_refused(adaptive: bool, tmp_path: Path) -> None:
    written = logged(adaptive=adaptive).to_table()
    shuffled = written.sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal(Trajectories.from_table(shuffled).rewards, np.arange(N) / N)
    swapped = written["episode_id"].replace({3: 4, 4: 3})
    for number, got in ((N - 1 - written["episode_id"], 39), (swapped, 4)):
        changed = written.assign(episode_id=number)
        changed.to_csv(tmp_path / "steps.csv", index=False)
        for source in (changed, tmp_path / "steps.csv"):
            with pytest.raises(
                ove.InvalidInputError,
                match=f"got number . for episode {got} of column 'ove_episode'",
            ):
                Trajectories.from_table(source)
    with pytest.raises(ove.InvalidInputError, match="must keep the column 'ove_episode'"):
        Trajectories.from_table(written.drop(columns="ove_episode"))


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_table_without_the_order(adaptive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions did not write the order; only a behavior that learned needs it."""
    import json

    dumps = json.dumps

    def earlier(content: dict[str, Any]) -> str:
        return dumps({name: value for name, value in content.items() if name != "numbered"})

    with monkeypatch.context() as patch:
        patch.setattr("ove_sb3.data.exchange.json.dumps", earlier)
        written = logged(adaptive=adaptive).to_table().drop(columns="ove_episode")
    if adaptive:
        with pytest.raises(ove.errors.StorageError, match="Write the table again"):
            Trajectories.from_table(written)
    else:
        assert len(Trajectories.from_table(written)) == N
