"""Evaluations during training, shown in the logger and on the console."""

from __future__ import annotations

from collections.abc import Sequence

from stable_baselines3.common.logger import Figure, Logger, TensorBoardOutputFormat

from ove_sb3.evaluation.requirements import Requirement, Verdict
from ove_sb3.evaluation.result import Evaluation
from ove_sb3.report.figure import distribution_figure
from ove_sb3.report.history import History, history_figure
from ove_sb3.report.numbers import bounds, count, number, percent

_ALL_BUT_TENSORBOARD = ("stdout", "log", "json", "csv")
_BESIDES_QUANTITIES = ("evaluation", "delta", "ess", "n_trajectories", "guaranteed", "satisfied")


def record(
    logger: Logger,
    evaluation: Evaluation,
    history: History,
    requirements: Sequence[Requirement],
    label: str,
    num_timesteps: int,
) -> None:
    """Write the last evaluation to SB3's logger.

    To TensorBoard also figures: the bounds of all evaluations, and the distribution function of the
    return in the last one. Its curves have one point per timestep: the evaluation after the last
    update, at the timestep of the one before it, is left out there.
    """
    repeated = num_timesteps in history.rows["timesteps"][:-1]
    keys = [key for name in history.quantities for key in (name, f"{name}_lower", f"{name}_upper")]
    for key in (*keys, *_BESIDES_QUANTITIES):
        value = history.rows[key][-1]
        shown = int(value) if isinstance(value, bool) else value
        logger.record(f"ove/{key}", shown, exclude="tensorboard" if repeated else None)
    if _wants_figure(logger):
        limits: dict[str, list[float]] = {}
        for requirement in requirements:
            if requirement.reference is None:
                limits.setdefault(requirement.quantity.name, []).append(requirement.limit)
        figure = history_figure(history, limits, label)
        logger.record("ove/bounds", Figure(figure, close=True), _ALL_BUT_TENSORBOARD)
        if evaluation.stats is not None:
            drawn = Figure(distribution_figure(evaluation), close=True)
            logger.record("ove/distribution", drawn, _ALL_BUT_TENSORBOARD)
    # As EvalCallback: dump now, so that the numbers stand at their own timestep.
    logger.record("time/total_timesteps", num_timesteps, exclude="tensorboard")
    logger.dump(num_timesteps)


def interval_label(evaluation: Evaluation, delta: float, error_spending: str) -> str:
    """Confidence, label and scope of the intervals."""
    kinds = {result.interval.label for result in evaluation.quantities.values()}
    scope = "each evaluation" if error_spending == "each" else "all evaluations"
    return f"{percent(delta)} {' and '.join(sorted(kinds))}, {scope}"


def summary_line(
    evaluation: Evaluation, verdicts: Sequence[Verdict], label: str, num_timesteps: int
) -> str:
    """Quantities, intervals and verdicts in one line."""
    shown = ", ".join(
        f"{r.quantity.name} {number(r.estimate)} {bounds(r.interval)}"
        for r in evaluation.quantities.values()
    )
    ess = count(evaluation.diagnostics.effective_sample_size)
    decided = ", ".join(f"{v.requirement} {v.status}" for v in verdicts)
    return (
        f"Evaluation num_timesteps={num_timesteps}: {shown} ({label}; ESS {ess} of "
        f"{evaluation.n_trajectories})" + (f"; {decided}" if decided else "")
    )


def _wants_figure(logger: Logger) -> bool:
    return any(isinstance(output, TensorBoardOutputFormat) for output in logger.output_formats)
