"""Width of intervals if some episodes never ended, relative to that of complete episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import ove_sb3 as ove
from tests.problems.queue import QUEUES, Queue

from .tables import print_table

NAMES = ("hardly any", "long is bad", "long is good", "many environments")


def main(trials: int = 20) -> None:
    rows = []
    for name in NAMES:
        queue = QUEUES[name]
        for quantity in ("mean", "variance"):
            fraction, *widths = np.mean(
                [_widths(queue, quantity, np.random.default_rng(k)) for k in range(trials)], axis=0
            )
            steps, unknown = (f"{width / widths[0] - 1:+.0%}" for width in widths[1:])
            rows.append([queue.n_envs, f"{fraction:.1%}", quantity, steps, unknown])
    print_table(
        f"Width of 95% guaranteed intervals, relative to that of as many complete episodes, "
        f"mean of {trials} trials",
        ["environments", "never ended", "quantity", "steps fixed", "stop unknown"],
        rows,
        name="unfinished",
    )


def _widths(queue: Queue, quantity: str, rng: np.random.Generator) -> tuple[float, ...]:
    """Fraction that never ended; widths for complete episodes, a fixed and an unknown stop."""
    stats = queue.log(rng)
    assert stats.logging is not None
    begun = stats.logging.begun
    alone = replace(queue, n_envs=1, n_steps=(begun + 1) * max(queue.lengths))
    whole = alone.log(rng).select(np.arange(begun))  # one after another: independent
    (record,) = stats.logging.records.values()
    unknown = replace(
        stats, logging=replace(stats.logging, records={1: replace(record, planned_steps=None)})
    )
    one_order = ove.Betting(n_shuffles=1)
    widths = [
        ove.interval(
            one,
            quantity,
            reward_range=(min(queue.returns), max(queue.returns)),
            max_ratio=queue.max_ratio,
            method=one_order,
        ).width
        for one in (replace(whole, overlaps=None), stats, unknown)
    ]
    return (stats.n_unfinished / begun, *widths)


if __name__ == "__main__":
    main()
