"""A gate for continuous integration: exit with 0 only if the guaranteed bounds permit deployment.

    python examples/deployment_gate.py --log logs/production --model candidate.zip \
        --algorithm PPO --reward-range 0 1 --min-mean 15 --max-variance 60

Exit codes: 0 the bounds satisfy the gate, 1 they do not, 2 the question could not be answered.

Loading a model runs code that is stored in its file: only load models you trust.
"""

from __future__ import annotations

import argparse
import sys

import sb3_contrib
import stable_baselines3

import ove_sb3 as ove

PERMITTED, REFUSED, FAILED = 0, 1, 2


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Judge a candidate by the log of another policy.")
    parser.add_argument("--log", required=True, help="directory of logged episodes")
    parser.add_argument("--model", required=True, help="saved model; its code is run: trust it")
    parser.add_argument("--algorithm", required=True, help="class of the model, such as PPO")
    parser.add_argument("--reward-range", type=float, nargs=2, required=True)
    parser.add_argument("--min-mean", type=float, required=True)
    parser.add_argument("--max-variance", type=float, required=True)
    parser.add_argument("--gamma", type=float, help="discount factor; by default the model's")
    parser.add_argument("--delta", type=float, default=0.05, help="probability of a wrong permit")
    return parser.parse_args(arguments)


def judge(options: argparse.Namespace) -> bool:
    """Whether the guaranteed bounds satisfy the gate."""
    algorithm = getattr(stable_baselines3, options.algorithm, None)
    algorithm = algorithm or getattr(sb3_contrib, options.algorithm)
    candidate = algorithm.load(options.model, device="cpu")
    data = ove.Trajectories.load(options.log)
    stats = ove.trajectory_statistics(
        ove.log_prob(candidate, data) - data.log_probs,
        data.rewards,
        data.lengths,
        gamma=candidate.gamma if options.gamma is None else options.gamma,
        horizon=data.metadata.horizon,
    )
    # One side of each is needed: half of delta for the mean, half for the variance.
    known = {"reward_range": options.reward_range, "delta": options.delta / 2}
    adaptive = data.metadata.adaptive
    mean = ove.mean_interval(stats, side="lower", adaptive=adaptive, **known)
    variance = ove.variance_interval(stats, side="upper", adaptive=adaptive, **known)
    good, safe = mean.lower >= options.min_mean, variance.upper <= options.max_variance
    print(f"mean     >= {mean.lower:<8.4g} required {options.min_mean:<8g} {_word(good)}")
    print(f"variance <= {variance.upper:<8.4g} required {options.max_variance:<8g} {_word(safe)}")
    print(
        f"both bounds hold with probability {1 - options.delta:g} ({ove.diagnose(stats).verdict})"
    )
    return bool(good and safe)


def _word(passed: bool) -> str:
    return "passed" if passed else "FAILED"


def main(arguments: list[str] | None = None) -> int:
    """Run the gate and return its exit code."""
    options = parse(arguments)
    try:
        return PERMITTED if judge(options) else REFUSED
    except (ove.OveError, OSError, AttributeError) as error:
        print(f"the gate could not be evaluated: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
