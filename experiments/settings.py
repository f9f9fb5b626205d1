"""Settings: the studies, the estimators and methods compared, and the sizes of a run.

A run saves its settings beside its results.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ove_sb3.core.methods import Betting, Bootstrap, Concentration, Method

DOMAINS = ("gridworld", "recommender", "diabetes")


@dataclass(frozen=True)
class Training:
    """Training of the evaluation policy by A2C.

    Attributes
    ----------
    total_timesteps, n_envs, n_steps
        Total number of steps, number of parallel environments, steps of each between updates.
    learning_rate, entropy, gamma
        As in stable-baselines3's ``A2C``. The entropy bonus keeps the policy near-optimal rather
        than deterministic.
    sd
        For continuous actions: fixed standard deviation of actions in [-1, 1].
    """

    total_timesteps: int
    n_envs: int
    n_steps: int
    learning_rate: float
    entropy: float = 0.0
    gamma: float = 1.0
    sd: float | None = None


@dataclass(frozen=True)
class Study:
    """One panel of the paper's figures.

    Attributes
    ----------
    name, domain, title
        Folder of the results, environment, and title of the figures.
    unit
        Unit of the variance.
    gamma, horizon, reward_range, return_range
        Definition of the return, and its stated ranges.
    env
        Options of the environment that differ from its defaults.
    mixing
        alpha of the behavior, ``alpha pi + (1 - alpha) random``.
    random
        The random policy: ``"uniform"`` over the actions; for Gaussian policies, a mean at the
        ``"midpoint"`` of the ranges or at the paper's ``"half_range"`` (max - min)/2.
    max_ratio
        Known bound on the ratio of a step: 1/alpha for a mixture of probabilities, else None.
    delta
        Failure probability of each bound, as in the paper; a two-sided interval has twice that.
    training
        Training of the evaluation policy; None if `candidate` is given.
    candidate
        Action probabilities of the evaluation policy.
    """

    name: str
    domain: str
    title: str
    unit: str
    gamma: float
    horizon: int
    reward_range: tuple[float, float]
    random: str
    max_ratio: float | None
    training: Training | None
    candidate: tuple[float, ...] | None = None
    return_range: tuple[float, float] | None = None
    env: dict[str, Any] = field(default_factory=dict)
    mixing: float = 0.5
    delta: float = 0.05


@dataclass(frozen=True)
class Sizes:
    """Size of a run.

    Attributes
    ----------
    n_trials
        Independent repetitions.
    n_grid
        Numbers of trajectories, increasing. A trial is one growing log, which is evaluated at
        each of these lengths.
    truth_episodes
        On-policy episodes for the true variance, if it is not known exactly.
    """

    n_trials: int
    n_grid: tuple[int, ...]
    truth_episodes: int


@dataclass(frozen=True)
class Bounds:
    """A pair of bounds.

    Attributes
    ----------
    label
        Display name.
    method
        Method of the interval.
    uses_ratio
        State the study's `max_ratio`. Studies that have none leave these bounds out.
    log
        ``"behavior"``, the paper's; ``"known"``: the same log, with the behavior given, so that its
        weights can be truncated and the study's `max_ratio` is derived; ``"canary"``: another log,
        in which the evaluation policy acts in a share of the episodes.
    """

    label: str
    method: Method
    uses_ratio: bool = False
    log: str = "behavior"

    @property
    def guaranteed(self) -> bool:
        """Whether the coverage of the method is proven."""
        return self.method.proven

    @property
    def options(self) -> dict[str, Any]:
        """Method and options as plain values, ready for JSON."""
        of_method = {"method": self.method.name, **vars(self.method)}
        return {**of_method, "uses_ratio": self.uses_ratio, "log": self.log}


#: Estimators of the variance and their labels.
ESTIMATORS = {
    "naive_is": "naive σ²!!",
    "naive_plugin": "naive σ²!",
    "is": "paper, without CDIS",
    "cdis": "paper, with CDIS",
    "pair": "pair (ours)",
    "pair_cdis": "pair_cdis (ours)",
    "crossfit": "crossfit (ours)",
}

BOUNDS = {
    "paper": Bounds("CI (paper)", Concentration()),
    "bootstrap": Bounds("Bootstrap (paper)", Bootstrap(n_resamples=1000, estimator="cdis")),
    "betting": Bounds("betting (ours)", Betting()),
    "betting_ratio": Bounds("betting, ratio bound known (ours)", Betting(), uses_ratio=True),
    "betting_known": Bounds("betting, behavior known (ours)", Betting(), log="known"),
    "betting_canary": Bounds("betting, canary log of 10% (ours)", Betting(), log="canary"),
    "bootstrap_crossfit": Bounds(
        "bootstrap of crossfit (ours)", Bootstrap(n_resamples=1000, estimator="crossfit")
    ),
}

#: Share of the episodes of a canary log in which the evaluation policy acts.
CANARY_SHARE = 0.1

#: Risk quantities of the third figure, and the bounds that are compared on them.
RISK = ("quantile:0.05", "median", "quantile:0.95", "cvar:0.1")
RISK_BOUNDS = {
    "bootstrap": Bounds("bootstrap", Bootstrap(n_resamples=1000)),
    "betting": BOUNDS["betting"],
    "betting_ratio": BOUNDS["betting_ratio"],
}

_GRIDWORLD_HORIZON = 25

#: The "standard" 4 x 4 gridworld of the textbook (Sutton and Barto): every move costs 1.
GRIDWORLD = Study(
    name="gridworld",
    domain="gridworld",
    title="Gridworld (4 × 4, every move costs 1)",
    unit="moves²",
    gamma=1.0,
    horizon=_GRIDWORLD_HORIZON,
    reward_range=(-1.0, 0.0),
    env={"step_reward": -1.0, "goal_reward": -1.0, "horizon": _GRIDWORLD_HORIZON},
    random="uniform",
    max_ratio=2.0,
    training=Training(
        total_timesteps=300_000, n_envs=32, n_steps=8, learning_rate=3e-3, entropy=0.1
    ),
)

#: The same grid with a reward at the goal, as registered in `ove_sb3.envs`.
GRIDWORLD_GOAL = Study(
    name="gridworld_goal",
    domain="gridworld",
    title="Gridworld (4 × 4, goal +1, other moves −0.1)",
    unit="return²",
    gamma=0.95,
    horizon=_GRIDWORLD_HORIZON,
    reward_range=(-0.1, 1.0),
    # The goal ends the episode, so its reward is given at most once.
    return_range=(-0.1 * (1 - 0.95**_GRIDWORLD_HORIZON) / 0.05, 1.0),
    env={"step_reward": -0.1, "goal_reward": 1.0, "horizon": _GRIDWORLD_HORIZON},
    random="uniform",
    max_ratio=2.0,
    training=Training(
        total_timesteps=300_000, n_envs=32, n_steps=8, learning_rate=3e-3, entropy=0.01, gamma=0.95
    ),
)

RECOMMENDER = Study(
    name="recommender",
    domain="recommender",
    title="Recommender (5 items, one step)",
    unit="interest²",
    gamma=1.0,
    horizon=1,
    reward_range=(0.0, 10.0),
    random="uniform",
    max_ratio=2.0,
    training=Training(
        total_timesteps=60_000, n_envs=64, n_steps=1, learning_rate=3e-3, entropy=0.6
    ),
)

#: Evaluation policy and confidence level of the authors' later public code. Each of their bounds
#: fails with probability 0.05/8.
RECOMMENDER_AUTHORS = Study(
    name="recommender_authors",
    domain="recommender",
    title="Recommender, the authors' policy and level",
    unit="interest²",
    gamma=1.0,
    horizon=1,
    reward_range=(0.0, 10.0),
    random="uniform",
    max_ratio=2.0,
    training=None,
    candidate=(0.00495, 0.99102, 0.00014, 0.00308, 0.00081),
    delta=0.05 / 8,
)

_DIABETES_TRAINING = Training(
    total_timesteps=51_200, n_envs=256, n_steps=1, learning_rate=1e-2, sd=0.3
)

DIABETES = Study(
    name="diabetes",
    domain="diabetes",
    title="Diabetes (one day; random mean: midpoint)",
    unit="return²",
    gamma=1.0,
    horizon=1,
    reward_range=(-1.0, 0.2),
    env={"clip_actions": True},
    random="midpoint",
    max_ratio=None,
    training=_DIABETES_TRAINING,
)

DIABETES_HALF_RANGE = Study(
    name="diabetes_half_range",
    domain="diabetes",
    title="Diabetes (one day; random mean: half-range, as printed)",
    unit="return²",
    gamma=1.0,
    horizon=1,
    reward_range=(-1.0, 0.2),
    env={"clip_actions": True},
    random="half_range",
    max_ratio=None,
    training=_DIABETES_TRAINING,
)

STUDIES = {
    study.name: study
    for study in (
        GRIDWORLD,
        GRIDWORLD_GOAL,
        RECOMMENDER,
        RECOMMENDER_AUTHORS,
        DIABETES,
        DIABETES_HALF_RANGE,
    )
}

FULL_GRID = (100, 316, 1000, 3162, 10_000, 31_622)
FULL = Sizes(n_trials=100, n_grid=FULL_GRID, truth_episodes=1_000_000)
QUICK = Sizes(n_trials=16, n_grid=FULL_GRID[:4], truth_episodes=250_000)


def studies_of(domain: str) -> tuple[Study, ...]:
    """The studies of a domain, or all studies for ``"all"``.

    Raises
    ------
    ValueError
        If there is no such domain.
    """
    if domain != "all" and domain not in DOMAINS:
        raise ValueError(f"`domain` must be one of {', '.join(DOMAINS)} or all, got {domain!r}.")
    return tuple(study for study in STUDIES.values() if domain in ("all", study.domain))


def bounds_of(study: Study) -> dict[str, Bounds]:
    """Bounds that can be computed in a study."""
    return {
        name: bounds
        for name, bounds in BOUNDS.items()
        if not bounds.uses_ratio or study.max_ratio is not None
    }


def risk_bounds_of(study: Study) -> dict[str, Bounds]:
    """Bounds of risk quantities; a bound on the ratio is of use in a single step only."""
    known = study.max_ratio is not None and study.horizon == 1
    return {name: bounds for name, bounds in RISK_BOUNDS.items() if known or not bounds.uses_ratio}


def as_plain(settings: Study | Sizes | Training) -> dict[str, Any]:
    """Settings as plain values, ready for JSON."""
    return asdict(settings)
