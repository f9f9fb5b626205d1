"""``collect``, ``inspect``, ``compact`` and ``repair``: making and maintaining logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from ove_sb3._progress import tracked
from ove_sb3._validation import check_path
from ove_sb3.data.log import open_log
from ove_sb3.data.metadata import Metadata, describe_space
from ove_sb3.errors import InvalidInputError
from ove_sb3.evaluation.model_files import load_model
from ove_sb3.report.numbers import number
from ove_sb3.store.verify import Verification
from ove_sb3.store.verify import repair as repair_log
from ove_sb3.store.verify import verify as verify_log
from ove_sb3.store.writer import has_episodes

from . import options
from .models import find_class
from .running import check_directory, console, escape, print_json

UNIFORM = "uniform"


def collect(
    model: Annotated[
        str,
        typer.Argument(
            help=f"Saved model, or `uniform`. {options.PICKLE}",
            show_default=False,
        ),
    ],
    env: Annotated[str, typer.Argument(help="Gymnasium id, or module:id.", show_default=False)],
    log: Annotated[
        Path,
        typer.Argument(
            help="Directory to write to.", show_default=False, callback=options.log_path
        ),
    ],
    episodes: Annotated[int, typer.Option(help="Number of episodes.", show_default=False)],
    model_class: options.ModelClass = None,
    reward_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH", help="Rewards the environment can give, stated in the log."
        ),
    ] = None,
    n_envs: Annotated[
        int | None, typer.Option(help="Number of environments.", show_default="8")
    ] = None,
    deterministic: options.Deterministic = False,
    safe_load: options.SafeLoad = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", metavar="", help="Replace an existing log.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the environments and actions. Logs to be joined need different ones.",
            show_default="drawn, and recorded",
        ),
    ] = None,
    progress: options.Progress = None,
    json: options.Json = False,
) -> None:
    """Run a model and log every step with the probability of its action."""
    import gymnasium as gym

    from ove_sb3.collection.collect import collect as collect_episodes

    check_directory(check_path(log, "log"), "log")
    if not overwrite and has_episodes(log):
        raise InvalidInputError(
            f"`log` must not hold episodes already, got {log}. Choose another directory, or pass "
            "--overwrite."
        )
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    try:
        behavior = _behavior(model, model_class, env, safe_load)
        data = collect_episodes(
            behavior,
            env,
            episodes,
            seed=seed,
            n_envs=n_envs,
            deterministic=deterministic,
            reward_range=reward_range,
            progress=progress,
        )
    except (gym.error.Error, ImportError) as error:
        raise InvalidInputError(f"`env` must be an environment, got {env!r}: {error}") from error
    data.save(log, overwrite=overwrite)
    if json:
        counts = {"n_trajectories": len(data), "n_steps": data.n_steps}
        print_json({"path": str(log), **counts, "n_envs": data.metadata.n_envs})
    else:
        n = data.metadata.n_envs
        console().print(escape(f"{data!r}, in {n} environment{'s' * (n != 1)}, written to {log}"))


def inspect(
    log: options.Log,
    verify: Annotated[
        bool, typer.Option("--verify", metavar="", help="Read the whole log and report damage.")
    ] = False,
    progress: options.Progress = None,
    json: options.Json = False,
) -> None:
    """Describe the contents of a log directory."""
    if verify:
        _show_verification(verify_log(log, progress=progress), json)
        return
    facts = describe(log, progress=progress)
    if json:
        print_json(facts)
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {entry}" for key, entry in value.items())
        elif isinstance(value, float):
            value = number(value)
        shown = "unknown" if value is None else str(value)
        table.add_row(name.replace("_", " "), escape(shown))
    console().print(table)


def compact(
    log: options.Log, progress: options.Progress = None, json: options.Json = False
) -> None:
    """Move finished episodes into Parquet files, which are smaller and faster to read."""
    from ove_sb3.data.writer import compact as compact_log

    n = compact_log(log, progress=progress)
    if json:
        print_json({"path": str(log), "n_compacted": n})
    else:
        console().print(f"episodes of {n} writer{'s' * (n != 1)} compacted")


def repair(log: options.Log, progress: options.Progress = None, json: options.Json = False) -> None:
    """Drop the damaged episodes of a log; its intervals are then no longer guaranteed."""
    verification = repair_log(log, progress=progress)
    if json:
        print_json(_report(verification))
        return
    for problem in verification.problems:
        console().print(escape(problem))
    console().print(
        f"{verification.lost_episodes} episodes dropped, {verification.n_episodes} kept"
    )


def _show_verification(verification: Verification, json: bool) -> None:
    if json:
        print_json(_report(verification))
    elif not verification.problems:
        console().print(f"intact: {verification.n_episodes} episodes")
    else:
        for problem in verification.problems:
            console().print(escape(problem))
        console().print(
            f"damaged: {verification.lost_episodes} episodes are lost, "
            f"{verification.n_episodes} can be saved by `ove-sb3 repair`"
        )
    if verification.problems:
        raise typer.Exit(3)


def _report(verification: Verification) -> dict[str, Any]:
    return {
        "problems": verification.problems,
        "n_trajectories": verification.n_episodes,
        "lost_episodes": verification.lost_episodes,
    }


def describe(path: Path, *, progress: bool | None = None) -> dict[str, Any]:
    """Facts about a log, in one pass."""
    log = open_log(path)
    lengths, returns, rewards, ends = [], [], [], np.zeros(2, dtype=np.int64)
    for chunk in tracked(
        log.chunks(),
        progress,
        total=log.n_steps,
        unit="step",
        size=lambda chunk: chunk.n_steps,
        scale=True,
    ):
        lengths.append(chunk.lengths)
        returns.append(chunk.returns())
        rewards.append([chunk.rewards.min(), chunk.rewards.max()])
        ends += [chunk.terminated.sum(), chunk.truncated.sum()]
    steps, total = np.concatenate(lengths), np.concatenate(returns)
    known = log.metadata
    space = known.action_space
    return {
        "environment": known.env_id,
        "behavior": known.behavior,
        "episodes": int(steps.size),
        "steps": int(steps.sum()),
        "shortest_episode": int(steps.min()),
        "longest_episode": int(steps.max()),
        "horizon": known.horizon,
        "terminated": int(ends[0]),
        "truncated": int(ends[1]),
        "mean_return": float(total.mean()),
        "variance_of_return": float(total.var(ddof=1)) if total.size > 1 else None,
        "smallest_reward": float(np.min(rewards)),
        "largest_reward": float(np.max(rewards)),
        "reward_range": None if known.reward_range is None else list(known.reward_range),
        "action_space": None if space is None else str(space["type"]),
        "adaptive": known.adaptive,
        "incomplete_fraction": known.incomplete_fraction,
        "lost_episodes": known.lost_episodes,
        "seed": known.seed,
        "environments": known.n_envs if known.logging is None else known.logging.n_envs,
        "shards": log.n_shards,
        "versions": dict(known.versions),
    }


def _behavior(model: str, model_class: str | None, env: str, safe_load: bool) -> Any:
    import gymnasium as gym

    if model != UNIFORM and not safe_load:
        return load_model(model, _class(model_class), "model")
    made = gym.make(env)
    made.close()
    if model != UNIFORM:
        known = Metadata(
            observation_space=describe_space(made.observation_space),
            action_space=describe_space(made.action_space),
        )
        return load_model(model, _class(model_class), "model", safe_for=known)
    from ove_sb3.policies.builtin import UniformPolicy

    return UniformPolicy(made.action_space)


def _class(name: str | None) -> Any:
    return None if name is None else find_class(name)
