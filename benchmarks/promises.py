"""Promised values of the benchmarks, compared with the measured ones."""

from __future__ import annotations

from dataclasses import dataclass

from .tables import print_table


@dataclass(frozen=True)
class Promise:
    """A limit on a measured value: the largest allowed, or the smallest."""

    what: str
    limit: float
    at_least: bool = False

    def kept(self, value: float) -> bool:
        """Whether a measured value is within the limit."""
        return value >= self.limit if self.at_least else value <= self.limit

    def worse(self, value: float, other: float) -> float:
        """The worse of two measured values."""
        return min(value, other) if self.at_least else max(value, other)


PROMISES = {
    "statistics": Promise("statistics of 10^7 steps / np.exp(np.cumsum(x)), length 100", 0.8),
    "bootstrap": Promise(
        "scipy's bootstrap in batches / ours, equal resamples", 6.0, at_least=True
    ),
    "betting": Promise("betting, one order, microseconds per trajectory at n = 10^6", 1.0),
    "shuffles": Promise(
        "betting, ten orders, mean and variance / scipy's bootstrap in batches, n = 10^5", 0.4
    ),
    "normal": Promise("probability at n = 10^4, ten orders / normal limits, width", 1.15),
    "risk": Promise(
        "all default quantities, both methods / scipy's bootstrap of one variance", 1.0
    ),
    "collect": Promise("collect / loop of predict and step", 0.7),
    "learn": Promise("learn with the logging wrapper / without", 1.12),
    "callback": Promise("learn with the callback / without", 1.03),
    "stream": Promise("evaluation from disk / sum of its parts, 50,000 episodes of 100 steps", 1.1),
    "table": Promise("from_table of 10^6 rows in order / pyarrow and SHA-256", 1.8),
    "written": Promise(
        "writing a log, before it is closed / pyarrow writing its steps as one Parquet file", 3.0
    ),
    "read": Promise("reading a log / pyarrow reading that file", 2.5),
    "closing": Promise("closing or compacting 10^6 episodes / 250,000 episodes", 6.0),
    "opening": Promise("opening a log of 1,000 shards / pyarrow counting their rows", 3.0),
    "images": Promise("peak memory of evaluating images from disk, MB", 400.0),
    "sequence": Promise("confidence sequence at the end / interval of that n, width", 1.7),
    "sequence with target": Promise("the same with target_n", 1.65),
    "known Gaussians": Promise("excess with behavior= / reference, Gaussians, n = 31,622", 1.6),
    "known recommender": Promise(
        "excess without behavior= / with, recommender, n = 31,622", 20.0, at_least=True
    ),
    "known diabetes": Promise("upper bound with behavior= / without, diabetes, n = 31,622", 0.6),
    "known scoring": Promise("scoring a log with behavior= / without, CPU time", 2.0),
    "sequence time": Promise("confidence sequence / interval at n = 10^6, CPU time", 10.0),
}

_measured: dict[str, float] = {}


def record(name: str, value: float) -> None:
    """Record a measured value; of several values of the same name, the worst is kept."""
    before = _measured.get(name, value)
    _measured[name] = PROMISES[name].worse(before, value)


def print_promises() -> bool:
    """Print promised and measured values; return whether every promise is kept."""
    rows = []
    for name, value in _measured.items():
        promise = PROMISES[name]
        sign = ">=" if promise.at_least else "<="
        verdict = "kept" if promise.kept(value) else "BROKEN"
        rows.append([promise.what, f"{sign} {promise.limit:g}", f"{value:.3g}", verdict])
    if rows:
        print_table("Promises", ["", "promised", "measured", ""], rows, name="promises")
    return all(PROMISES[name].kept(value) for name, value in _measured.items())
