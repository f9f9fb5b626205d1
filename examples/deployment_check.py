"""A check for continuous integration: exit with 0 only if all requirements are proven.

    python examples/deployment_check.py --log logs/production --model candidate.zip \
        --algorithm PPO --reward-range 0 1 --require "mean >= 15" --require "variance <= 60"

Exit codes: 0 all requirements are proven, 1 one is not, 2 wrong usage, 3 any other error. The
command ``ove-sb3 evaluate`` does the same with more options.

Loading a model executes pickled code in its file: only load files you trust.
"""

from __future__ import annotations

import argparse
import sys

import sb3_contrib
import stable_baselines3

import ove_sb3 as ove

PROVEN, NOT_PROVEN, ERROR = 0, 1, 3


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Check a candidate against requirements.")
    parser.add_argument("--log", required=True, help="directory of logged episodes")
    parser.add_argument("--model", required=True, help="saved model; its pickled code is executed")
    parser.add_argument("--algorithm", required=True, help="class of the model, such as PPO")
    parser.add_argument("--reward-range", type=float, nargs=2, required=True)
    parser.add_argument(
        "--require", action="append", required=True, help='requirement, such as "variance <= 60"'
    )
    parser.add_argument("--gamma", type=float, help="discount factor; by default the model's")
    parser.add_argument(
        "--delta", type=float, default=0.05, help="probability of a wrong exit code 0"
    )
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> bool:
    """Whether all requirements are proven."""
    algorithm = getattr(stable_baselines3, options.algorithm, None)
    algorithm = algorithm or getattr(sb3_contrib, options.algorithm)
    candidate = algorithm.load(options.model, device="cpu")
    result = ove.evaluate(
        options.log,
        candidate,
        gamma=candidate.gamma if options.gamma is None else options.gamma,
        reward_range=tuple(options.reward_range),
        delta=options.delta,
    )
    print(result)
    print()
    verdicts = result.check_all(*options.require)
    for verdict in verdicts:
        print(verdict)
    return all(verdict.proven for verdict in verdicts)


def main(arguments: list[str] | None = None) -> int:
    """Run the check and return its exit code."""
    options = parse(arguments)
    try:
        return PROVEN if check(options) else NOT_PROVEN
    except (ove.OveError, OSError, AttributeError) as error:
        print(f"the candidate could not be evaluated: {error}", file=sys.stderr)
        return ERROR


if __name__ == "__main__":
    sys.exit(main())
