"""Tables of ``docs/public.md``, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.tables import markdown
from ove_sb3.core.quantities import as_quantity
from ove_sb3.experiments.storage import stamp

from .control import MOMENTS
from .icu_sepsis import CELLS, RISK, RISK_GAMMA
from .open_bandit import CAMPAIGNS
from .results import Content


def tables_of(part: str, content: Content) -> dict[str, str]:
    """Tables of a part by their name on the page."""
    make = {"icu_sepsis": _icu_sepsis, "open_bandit": _open_bandit, "control": _control}[part]
    return {name: f"{text}\n{stamp(content['measured'])}\n" for name, text in make(content).items()}


def short(value: float | None) -> str:
    """Three significant digits, no decimals from 1,000 on, a dash for None."""
    if value is None:
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def bounds(entry: Mapping[str, Any]) -> str:
    """Bounds of an interval, marked if they are no tighter than the a priori range."""
    text = f"[{short(entry['lower'])}, {short(entry['upper'])}]"
    if not entry["guaranteed"]:
        return f"{text} approximate"
    return text if entry["informative"] else f"{text} *useless*"


# --- ICU-Sepsis


def study_rows(content: Content, quantity: str) -> list[dict[str, Any]]:
    """Mean bounds, misses and widths of every cell and n."""
    rows = []
    for behavior, candidate in CELLS:
        truth = content["truth"][candidate][quantity]
        for n in content["settings"]["sizes"]:
            cells = [log[f"{behavior}/{candidate}"][str(n)] for log in content["logs"]]
            row: dict[str, Any] = {
                "behavior": behavior,
                "candidate": candidate,
                "n": n,
                "truth": truth,
                "ess": float(np.median([cell["ess"] for cell in cells])),
            }
            estimates = np.array([cell[quantity]["estimate"] for cell in cells])
            row["error"] = float(np.median(np.abs(estimates - truth)) / truth)
            row["rmse"] = float(np.sqrt(np.mean((estimates - truth) ** 2)) / truth)
            for method in ("betting", "paper"):
                lower, upper = (
                    np.array([cell[quantity][f"{method}_{side}"] for cell in cells])
                    for side in ("lower", "upper")
                )
                row[method] = {
                    "lower": float(lower.mean()),
                    "upper": float(upper.mean()),
                    "misses": [int((lower > truth).sum()), int((upper < truth).sum())],
                    "width": float((upper - lower).mean()),
                }
            rows.append(row)
    return rows


def _icu_sepsis(content: Content) -> dict[str, str]:
    n_logs = len(content["logs"])
    tables = {"icu_truth": _icu_truth(content)}
    for quantity in ("mean", "variance"):
        lines = []
        for row in study_rows(content, quantity):
            ours, paper = row["betting"], row["paper"]
            lines.append(
                [
                    row["behavior"],
                    row["candidate"],
                    f"{row['n']:,}",
                    f"{row['ess']:,.0f}",
                    short(row["truth"]),
                    f"{row['error']:.0%}",
                    f"{row['rmse']:,.0%}",
                    f"[{short(ours['lower'])}, {short(ours['upper'])}]",
                    " / ".join(map(str, ours["misses"])),
                    f"[{short(paper['lower'])}, {short(paper['upper'])}]",
                    " / ".join(map(str, paper["misses"])),
                    f"1/{paper['width'] / ours['width']:.1f}",
                ]
            )
        header = [
            *("behavior", "candidate", "n", "ESS", "truth", "error", "RMSE"),
            *("betting (ours)", "misses"),
            *("paper's CI", "misses", "width"),
        ]
        tables[f"icu_{quantity}"] = (
            f"Mean over {n_logs} logs; misses of the lower / upper bound, of {n_logs}.\n\n"
            + markdown(header, lines, 2)
        )
    tables["icu_risk"] = _icu_risk(content)
    tables["icu_advice"] = _icu_advice(content)
    return tables


def _icu_truth(content: Content) -> str:
    names = ["quantile:0.25", "median", "cvar:0.25", "p_below:0.5"]
    header = ["policy", "mean", "variance", "steps"]
    header += [f"{as_quantity(name).label}" for name in ("mean", "variance", *names)]
    rows = [
        [
            name,
            *(f"{truth[key]:.4f}" for key in ("mean", "variance")),
            f"{truth['steps']:.2f}",
            *(f"{truth['risk'][key]:.4f}" for key in ("mean", "variance", *names)),
        ]
        for name, truth in content["truth"].items()
    ]
    return (
        f"The first three columns: gamma = 1; those after them: gamma = {RISK_GAMMA}.\n\n"
        + markdown(header, rows)
    )


def _icu_risk(content: Content) -> str:
    rows = []
    for quantity in RISK:
        row = [as_quantity(quantity).label]
        for behavior, candidate in (CELLS[0], CELLS[-1]):
            truth = content["truth"][candidate]["risk"][quantity]
            example = content["examples"][f"{behavior}/{candidate}"]["risk"]["quantities"]
            row += [short(truth), short(example[quantity]["estimate"]), bounds(example[quantity])]
        rows.append(row)
    header = ["quantity"]
    for behavior, candidate in (CELLS[0], CELLS[-1]):
        header += [f"{candidate} from {behavior}: truth", "estimate", "95% guaranteed"]
    return markdown(header, rows)


def _icu_advice(content: Content) -> str:
    rows = []
    for behavior, candidate in CELLS:
        example = content["examples"][f"{behavior}/{candidate}"]
        known = example.get("known")
        rows.append(
            [
                behavior,
                candidate,
                bounds(example["plain"]["quantities"]["variance"]),
                "-" if known is None else bounds(known["quantities"]["variance"]),
                (example["plain"]["advice"] or ["none"])[0],
            ]
        )
    header = ["behavior", "candidate", "variance", "with `behavior=`", "first advice"]
    return markdown(header, rows, 5)


# --- Open Bandit data


def _open_bandit(content: Content) -> dict[str, str]:
    tables = {}
    for quantity in ("mean", "variance"):
        rows = []
        for campaign in CAMPAIGNS:
            study = content["campaigns"][campaign]
            of = {name: study[name]["quantities"][quantity] for name in _STUDIES}
            low, high = study["approximate"][quantity]
            rows.append(
                [
                    campaign,
                    str(study["n_items"]),
                    f"{_percent(of['thompson_own']['estimate'])} {_percents(of['thompson_own'])}",
                    _percent(of["plain"]["estimate"]),
                    *(_percents(of[name]) for name in ("known", "plain", "paper")),
                    f"[{_percent(low)}, {_percent(high)}]",
                ]
            )
        header = [
            *("campaign", "items", "its own log", "estimate", "guaranteed, `behavior=` given"),
            *("guaranteed, without", "paper's CI", "bootstrap (approximate)"),
        ]
        tables[f"obd_{quantity}"] = markdown(header, rows)
    tables["obd_backward"] = _backward(content)
    tables["obd_drift"] = _drift(content)
    tables["obd_advice"] = markdown(
        ["campaign", "log", "first advice"],
        [
            [campaign, log, (content["campaigns"][campaign][name]["advice"] or ["none"])[0]]
            for campaign in CAMPAIGNS
            for log, name in (("uniform", "known"), ("Thompson sampling", "backward"))
        ],
        3,
    )
    return tables


_STUDIES = ("thompson_own", "plain", "known", "paper", "uniform_own", "backward")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}%"


def _percents(entry: Mapping[str, Any]) -> str:
    return f"[{_percent(entry['lower'])}, {_percent(entry['upper'])}]"


def _backward(content: Content) -> str:
    rows = []
    for campaign in CAMPAIGNS:
        study = content["campaigns"][campaign]
        own = study["uniform_own"]["quantities"]["mean"]
        backward = study["backward"]["quantities"]["mean"]
        rows.append(
            [
                campaign,
                f"{_percent(own['estimate'])} {_percents(own)}",
                short(study["backward"]["ess"]),
                _percent(backward["estimate"]),
                _percents(backward),
            ]
        )
    return markdown(["campaign", "its own log", "ESS", "estimate", "guaranteed"], rows)


def _drift(content: Content) -> str:
    days = list(content["campaigns"]["all"]["drift"])
    rows = []
    for campaign in CAMPAIGNS:
        study = content["campaigns"][campaign]
        rows.append(
            [
                campaign,
                *(f"{study['agreement'][order]:.2f}" for order in ("own", "other")),
                *(short(study["drift"][day]) for day in days),
            ]
        )
    header = ["campaign", "first 100 rows", "positions in another order"]
    return markdown([*header, *(day[5:] for day in days)], rows)


# --- classic control


def _control(content: Content) -> dict[str, str]:
    tables = {}
    for quantity in ("mean", "variance", "cvar:0.1"):
        rows, name = [], quantity.partition(":")[0]
        for env_id, task in content["tasks"].items():
            for pair, logs in task["pairs"].items():
                if quantity not in logs["plain"]["quantities"]:
                    continue
                old, new = map(int, pair.split("-"))
                truth = task["truth"][str(new)]
                rows.append(
                    [
                        env_id,
                        f"{task['checkpoints'][new]:,} from {task['checkpoints'][old]:,}",
                        short(truth[quantity]),
                        *(
                            cell
                            for log in ("plain", "canary")
                            for cell in (
                                short(logs[log]["ess"]),
                                short(logs[log]["quantities"][quantity]["estimate"]),
                                bounds(logs[log]["quantities"][quantity]),
                            )
                        ),
                    ]
                )
        header = ["environment", "checkpoint, by steps", "on-policy", "ESS", "estimate"]
        header += ["older checkpoint's log", "ESS", "estimate", "10% canary log"]
        tables[f"control_{name}"] = markdown(header, rows, 2)
    rows = [
        [
            env_id,
            "{1:,} from {0:,}".format(*(task["checkpoints"][int(k)] for k in pair.split("-"))),
            (logs["plain"]["advice"] or ["none"])[0],
        ]
        for env_id, task in content["tasks"].items()
        for pair, logs in task["pairs"].items()
    ]
    tables["control_advice"] = markdown(["environment", "checkpoint", "first advice"], rows, 3)
    tables["control_training"] = _training(content)
    return tables


def _rough(value: float) -> str:
    """One significant digit below 1, no decimals from 1 on."""
    return f"{value:.1g}" if value < 1 else f"{value:.0f}"


def _training(content: Content) -> str:
    """Truth of the evaluated checkpoints, and the effect of passing the behavior."""
    rows = [
        [
            env_id,
            f"{task['checkpoints'][int(k)]:,}",
            f"{truth['n']:,}",
            *(f"{short(truth[key])} ± {_rough(truth[f'{key}_error'])}" for key in MOMENTS),
            short(truth["cvar:0.1"]),
        ]
        for env_id, task in content["tasks"].items()
        for k, truth in task["truth"].items()
    ]
    pairs = [logs for task in content["tasks"].values() for logs in task["pairs"].values()]
    both = [
        (logs["plain"]["quantities"][name], logs["known"]["quantities"][name])
        for logs in pairs
        for name in logs["plain"]["quantities"]
    ]
    narrower = sum(
        known["upper"] - known["lower"] < 0.99 * (plain["upper"] - plain["lower"])
        for plain, known in both
    )
    header = ["environment", "steps of training", "episodes", "mean", "variance", "CVaR 10%"]
    return (
        markdown(header, rows)
        + f"\nWith `behavior=` given, {narrower} of {len(both)} intervals from the older "
        "checkpoint's log are narrower by 1% or more.\n"
    )
