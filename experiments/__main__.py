"""Run the paper's experiments: ``python -m ove_sb3.experiments``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from .settings import DOMAINS, FULL, QUICK, Sizes, studies_of


def run(
    domain: str = "all",
    *,
    full: bool = False,
    trials: int | None = None,
    n: Sequence[int] | None = None,
    truth: int | None = None,
    jobs: int = 2,
    scheduler: str | None = None,
    out: str | Path = "results",
    seed: int = 0,
    progress: bool = True,
) -> None:
    """Run the studies of a domain, print the tables, and write tables and figures.

    Parameters
    ----------
    domain
        ``"gridworld"``, ``"recommender"``, ``"diabetes"`` or ``"all"``.
    full
        100 trials of up to 31,622 trajectories, instead of 16 of up to 3,162.
    trials, n
        Number of trials and numbers of trajectories, instead of these.
    truth
        On-policy episodes for the true variance of diabetes, instead of 250,000, or of a million
        if full.
    jobs
        Number of processes. The results do not depend on it.
    scheduler
        Address of a Dask cluster to use instead; its workers must see the folder `out`.
    out
        Folder of the results; an interrupted run continues from them.
    seed
        Random seed of training, truth and trials.
    progress
        Show progress bars.
    """
    from . import figures, tables
    from .runner import run_study

    sizes = choose_sizes(full=full, trials=trials, n=n, truth=truth)
    for study in studies_of(domain):
        result = run_study(
            study,
            sizes,
            out=Path(out),
            seed=seed,
            jobs=jobs,
            scheduler=scheduler,
            progress=progress,
        )
        folder = Path(out) / study.name
        tables.save(result, folder)
        figures.save(result, folder)
        print(tables.as_text(result), flush=True)
    print(f"Tables and figures are in {out}/.")


def choose_sizes(
    *, full: bool, trials: int | None, n: Sequence[int] | None, truth: int | None = None
) -> Sizes:
    """The quick or the full sizes, with the given numbers replaced."""
    sizes = FULL if full else QUICK
    if trials is not None:
        if trials < 1:
            raise ValueError(f"`trials` must be at least 1, got {trials}.")
        sizes = dataclasses.replace(sizes, n_trials=trials)
    if truth is not None:
        if truth < 1:
            raise ValueError(f"`truth` must be a number of episodes of at least 1, got {truth}.")
        sizes = dataclasses.replace(sizes, truth_episodes=truth)
    if n is not None:
        if not n or min(n) < 2:
            raise ValueError(f"`n` must be numbers of trajectories of at least 2, got {list(n)}.")
        sizes = dataclasses.replace(sizes, n_grid=tuple(sorted(set(n))))
    return sizes


def main(argv: Sequence[str] | None = None, *, prog: str = "python -m ove_sb3.experiments") -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Reproduce the experiments of Chandak, Shankar and Thomas (2021).",
    )
    parser.add_argument("domain", nargs="?", default="all", choices=[*DOMAINS, "all"])
    parser.add_argument(
        "--full", action="store_true", help="the paper's size instead of a quick run"
    )
    of_sizes = f"({QUICK.n_trials}; {FULL.n_trials} if full)"
    parser.add_argument("--trials", type=int, help=f"independent repetitions {of_sizes}")
    parser.add_argument("--n", type=int, nargs="+", help="numbers of trajectories")
    parser.add_argument(
        "--truth",
        type=int,
        help="on-policy episodes for diabetes "
        f"({QUICK.truth_episodes:,}; {FULL.truth_episodes:,} if full)",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="Dask cluster to use instead of local processes"
    )
    parser.add_argument("--out", default="results", help="folder of the results (default: results)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    options = parser.parse_args(argv)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    try:
        choose_sizes(full=options.full, trials=options.trials, n=options.n, truth=options.truth)
    except ValueError as error:
        parser.error(str(error))
    try:
        run(
            options.domain,
            full=options.full,
            trials=options.trials,
            n=options.n,
            truth=options.truth,
            jobs=options.jobs,
            scheduler=options.scheduler,
            out=options.out,
            seed=options.seed,
            progress=not options.quiet,
        )
    except KeyboardInterrupt:
        print("\nStopped. Finished trials are kept: the same command continues.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
