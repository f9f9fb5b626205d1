"""Open Bandit data: recommendations in a fashion store by two policies in the same week.

A uniform policy and Bernoulli Thompson sampling chose the items for three places of a web page,
in three campaigns (Saito et al., 2021). The source archive of ``obp`` holds 10,000 rows for each
policy and campaign, with the probability of every shown item, and the prior of Thompson sampling.
"""

from __future__ import annotations

import io
import itertools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import yaml
from gymnasium.spaces import Discrete

import ove_sb3 as ove

from .download import Archive
from .results import Content, evaluation_summary, load, save
from .tabular import FloatArray

ARCHIVE = Archive(
    "obp==0.5.7",
    "obp-0.5.7.tar.gz",
    "3060d67fedfcfadf1e7a6f2608987f74412b5eb74d2c567edeb147595c68f2a0",
    ("--no-binary", "obp", "--ignore-requires-python"),
)
FOLDER = "obp-0.5.7/obp"
CAMPAIGNS = ("all", "men", "women")
N_POSITIONS = 3
QUANTITIES = ("mean", "variance")


@dataclass(frozen=True)
class Settings:
    """Size of the study."""

    n_draws: int = 1_000_000
    delta: float = 0.05
    seed: int = 0


QUICK = Settings(n_draws=50_000)


def read_rows(contents: bytes) -> pa.Table:
    """Rows of a log: item, position from 0, click, and the probability of the item."""
    names = ["timestamp", "item_id", "position", "click", "propensity_score"]
    options = pyarrow.csv.ConvertOptions(include_columns=names)
    table = pyarrow.csv.read_csv(io.BytesIO(contents), convert_options=options)
    table = table.sort_by("timestamp")
    position = table.column("position").to_numpy()
    if not np.isin(position, np.arange(1, N_POSITIONS + 1)).all():
        raise ValueError(f"`position` must be 1 to {N_POSITIONS}, got {np.unique(position)}.")
    return table.set_column(
        table.column_names.index("position"), "position", pa.array(position - 1)
    )


def read_prior(contents: bytes, campaign: str) -> tuple[FloatArray, FloatArray]:
    """Parameters alpha and beta of the prior of every item."""
    entry = yaml.safe_load(contents)[campaign]
    alpha, beta = (np.asarray(entry[name], dtype=np.float64) for name in ("alpha", "beta"))
    if alpha.shape != beta.shape:
        raise ValueError(f"`alpha` and `beta` differ in length: {len(alpha)} and {len(beta)}.")
    return alpha, beta


def thompson_probabilities(
    alpha: FloatArray, beta: FloatArray, n_positions: int, n_draws: int, seed: int
) -> FloatArray:
    """Probability of every item at every position, (n_positions, n_items), by simulation.

    Thompson sampling draws a click rate for every item from its Beta distribution, and shows the
    items with the largest ones: the largest at the first position, and so on.
    """
    rng = np.random.default_rng(seed)
    counts = np.zeros((n_positions, len(alpha)))
    remaining = n_draws
    while remaining:
        rates = rng.beta(alpha, beta, size=(min(remaining, 20_000), len(alpha)))
        largest = np.argpartition(-rates, np.arange(n_positions), axis=1)[:, :n_positions]
        for position in range(n_positions):
            counts[position] += np.bincount(largest[:, position], minlength=len(alpha))
        remaining -= len(rates)
    return counts / n_draws


def as_log(rows: pa.Table, **facts: Any) -> ove.Trajectories:
    """The rows as episodes of one step."""
    return ove.Trajectories.from_table(
        rows,
        episode=None,
        propensity="propensity_score",
        reward="click",
        action="item_id",
        observations="position",
        metadata={"horizon": 1, "reward_range": (0, 1), **facts},
    )


def run(settings: Settings, path: Path) -> Content:
    """Run the study, or continue it with the next campaign."""
    content = load(path, asdict(settings))
    campaigns = content.setdefault("campaigns", {})
    for campaign in CAMPAIGNS:
        if campaign not in campaigns:
            campaigns[campaign] = _study(campaign, settings)
            save(path, content)
            print(f"Open Bandit data: campaign {campaign}", flush=True)
    return content


def _study(campaign: str, settings: Settings) -> Content:
    rows = {
        policy: read_rows(ARCHIVE.read(f"{FOLDER}/dataset/obd/{policy}/{campaign}/{campaign}.csv"))
        for policy in ("random", "bts")
    }
    alpha, beta = read_prior(ARCHIVE.read(f"{FOLDER}/policy/conf/prior_bts.yaml"), campaign)
    table = thompson_probabilities(alpha, beta, N_POSITIONS, settings.n_draws, settings.seed)
    thompson, uniform = ove.TabularPolicy(table), ove.UniformPolicy(Discrete(len(alpha)))
    logged, own = as_log(rows["random"]), as_log(rows["bts"], adaptive=True)
    options: dict[str, Any] = {
        "gamma": 1.0,
        "delta": settings.delta,
        "quantities": QUANTITIES,
        "rng": settings.seed,
    }
    unweighted = own.log_probs  # the policy that wrote the log
    plain = ove.evaluate(logged, thompson, **options)
    return {
        "n_items": len(alpha),
        "plain": evaluation_summary(plain),
        "approximate": _approximate(plain),
        "known": evaluation_summary(ove.evaluate(logged, thompson, behavior=uniform, **options)),
        "paper": evaluation_summary(ove.evaluate(logged, thompson, method="paper", **options)),
        "uniform_own": evaluation_summary(ove.evaluate(logged, uniform, **options)),
        "thompson_own": evaluation_summary(ove.evaluate(own, unweighted, **options)),
        "backward": evaluation_summary(ove.evaluate(own, uniform, **options)),
        "drift": drift(rows["bts"], table),
        "agreement": agreement(rows["bts"], table),
    }


def _approximate(result: ove.Evaluation) -> Content:
    """Bootstrap intervals."""
    intervals = {}
    for name in QUANTITIES:
        interval = result[name].approximate
        intervals[name] = None if interval is None else [interval.lower, interval.upper]
    return intervals


def agreement(rows: pa.Table, table: FloatArray, n_rows: int = 100) -> dict[str, float]:
    """How well the simulation agrees with the first rows that Thompson sampling logged.

    Median factor, at least 1, between logged and simulated probabilities: with the positions as
    they are, and in the best of all other orders.
    """
    first = rows.slice(0, n_rows)
    logged = first.column("propensity_score").to_numpy()
    position, item = (first.column(name).to_numpy() for name in ("position", "item_id"))
    factors = {}
    for order in itertools.permutations(range(len(table))):
        simulated = np.maximum(table[np.array(order)[position], item], 1e-7)
        factors[order] = float(np.exp(np.median(np.abs(np.log(logged / simulated)))))
    own = factors.pop(tuple(range(len(table))))
    return {"own": own, "other": min(factors.values())}


def drift(rows: pa.Table, table: FloatArray) -> dict[str, float]:
    """How far Thompson sampling moved while it learned, by day.

    Mean over the rows of log(logged probability / probability from the prior): an estimate of the
    Kullback-Leibler divergence of the two policies, in nats per decision. Items that no draw from
    the prior shows at a position count as one in ten million.
    """
    before = table[rows.column("position").to_numpy(), rows.column("item_id").to_numpy()]
    divergence = np.log(rows.column("propensity_score").to_numpy() / np.maximum(before, 1e-7))
    days = np.array([str(time)[:10] for time in rows.column("timestamp").to_pylist()])
    return {day: float(divergence[days == day].mean()) for day in np.unique(days).tolist()}
