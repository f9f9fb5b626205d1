"""One function decides the label of an interval, and nothing else does."""

from __future__ import annotations

import ast
import itertools
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.assumptions import Assumptions
from ove_sb3.core.inference import a_priori_interval, compute_interval
from ove_sb3.core.label import Evidence, decide_label
from ove_sb3.core.methods import as_method, method_names
from tests.problems.chain import chain

PACKAGE = Path(ove.__file__).parent
REASONS = {
    "method": "approximation for large n",
    "range": "range of rewards was taken from the data",
    "candidate_depends_on_log": "candidate was trained on these trajectories",
    "candidate_selected_on_log": "candidate was selected by its evaluations",
    "candidate_of_unknown_origin": "nothing shows that the candidate did not learn",
    "deterministic_actions": "not drawn from the logged probabilities",
    "lost_episodes": "dropped by `ove-sb3 repair`",
    "shared_exploration": "decided once for all of its environments",
    "repeated_seeds": "from the same seed more than once",
    "repeated_episodes": "in the log more than once",
    "selected_episodes": "picked one by one after logging",
    "interrupted": "raised an error while episodes were under way",
    "changing_environment": "depend on earlier ones",
    "bounds": "lower bound exceeds the upper bound",
}
EVIDENCE = [field.name for field in fields(Evidence)]


@pytest.mark.parametrize("adaptive", [False, True])
def test_truth_table(adaptive: bool) -> None:
    for against in itertools.product([False, True], repeat=len(REASONS)):
        holds = dict(zip(REASONS, against, strict=True))
        facts = {name: holds[name] for name in EVIDENCE if name in holds}
        label = decide_label(
            Evidence(adaptive=adaptive, **facts),
            method_proven=not holds["method"],
            range_from_data=holds["range"],
            consistent=not holds["bounds"],
        )
        expected = [REASONS[name] for name in REASONS if holds[name]]
        assert len(label.reasons) == len(expected)
        for text, reason in zip(expected, label.reasons, strict=True):
            assert text in reason
        # Guaranteed in two cases: only an adaptive behavior is no reason against it.
        assert label.guaranteed == (not any(against))


def test_every_fact_has_its_reason() -> None:
    handled = {"adaptive", "assigned"}  # some methods account for these
    assert set(EVIDENCE) - handled == set(EVIDENCE) & set(REASONS)


@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_assigned_episodes(handled: bool, known: bool) -> None:
    label = decide_label(
        Evidence(assigned=True),
        method_proven=True,
        range_from_data=False,
        consistent=True,
        handles_assigned=handled,
        arms_known=known,
    )
    assert label.guaranteed == (handled and known)
    assert all("assigned to several policies" in reason for reason in label.reasons)


def test_evidence_is_in_favor_unless_stated_otherwise() -> None:
    label = decide_label(Evidence(), method_proven=True, range_from_data=False, consistent=True)
    assert label.guaranteed
    assert label.reasons == ()


def test_which_methods_are_proven() -> None:
    proven = {name: as_method(name).proven for name in method_names()}
    assert proven == {
        "betting": True,
        "paper": True,
        "bootstrap": False,
        "normal": False,
    }


@pytest.mark.parametrize("method", ["betting", "paper", "bootstrap", "normal"])
@pytest.mark.parametrize("depends", [False, True])
@pytest.mark.parametrize("reward_range", [(-1.0, 1.0), "from_data"])
def test_intervals_carry_the_label(
    method: str, depends: bool, reward_range: tuple[float, float] | str
) -> None:
    stats = chain(5).statistics(100, np.random.default_rng(0))
    assumptions = Assumptions(
        gamma=stats.gamma,
        horizon=stats.horizon,
        reward_range=reward_range,
        evidence=Evidence(candidate_depends_on_log=depends),
    )
    expected = decide_label(
        assumptions.evidence,
        method_proven=method in ("betting", "paper"),
        range_from_data=reward_range == "from_data",
        consistent=True,
    )
    computed = compute_interval(stats, ove.Variance(), as_method(method), assumptions)
    a_priori = a_priori_interval(stats, ove.Variance(), as_method(method), assumptions)
    for interval in (computed, a_priori):
        assert interval.consistent
        assert (interval.guaranteed, interval.reasons) == (expected.guaranteed, expected.reasons)
        assert interval.label == ("guaranteed" if expected.guaranteed else "approximate")
        assert f" {interval.label} [" in str(interval)
        assert set(expected.reasons) <= set(interval.assumptions)
    assert (a_priori.lower, a_priori.upper) == a_priori.a_priori == computed.a_priori


def is_named_guaranteed(node: ast.AST) -> bool:
    """Whether a node is the name, attribute, key or text "guaranteed"."""
    if isinstance(node, ast.Subscript):
        return is_named_guaranteed(node.slice)
    return "guaranteed" in (
        getattr(node, "id", None),
        getattr(node, "attr", None),
        getattr(node, "value", None) if isinstance(node, ast.Constant) else None,
    )


def reads_a_label(node: ast.AST | None) -> bool:
    """Whether an expression reads ``something.guaranteed``."""
    return node is not None and any(
        isinstance(part, ast.Attribute) and part.attr == "guaranteed" for part in ast.walk(node)
    )


def decisions(source: str) -> list[str]:
    """Places that set "guaranteed" to anything but a label that was decided elsewhere."""
    places: list[tuple[ast.AST, bool]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg == "guaranteed":
            places.append((node.value, ast.unparse(node.value) == "label.guaranteed"))
        elif isinstance(node, ast.Assign) and any(map(is_named_guaranteed, node.targets)):
            places.append((node, reads_a_label(node.value)))
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and is_named_guaranteed(node.target):
            # A declared field has no value.
            places.append((node, node.value is None or reads_a_label(node.value)))
        elif isinstance(node, ast.AugAssign) and is_named_guaranteed(node.target):
            places.append((node, False))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and is_named_guaranteed(key):
                    places.append((value, reads_a_label(value)))
        elif isinstance(node, ast.FunctionDef) and node.name == "guaranteed":
            places.append((node, any(map(reads_a_label, node.body))))
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in ("setattr", "__setattr__") and any(map(is_named_guaranteed, node.args)):
                places.append((node, False))
            elif name in ("Interval", "Label") and node.args:
                places.append((node, False))  # by position
    return [ast.unparse(node) for node, allowed in places if not allowed]


@pytest.mark.parametrize(
    "source",
    [
        "Interval(lower=0.0, guaranteed=True)",
        "Interval(guaranteed=method.proven)",
        "Interval(0.0, 1.0, 0.05, True)",
        "Label(True, ())",
        "replace(interval, guaranteed=not reasons)",
        "guaranteed = method == 'betting'",
        "guaranteed: bool = True",
        "interval.guaranteed = True",
        "interval.guaranteed |= True",
        "row['guaranteed'] = 1.0",
        "row = {'guaranteed': True}",
        "object.__setattr__(interval, 'guaranteed', True)",
        "setattr(interval, 'guaranteed', True)",
        "(guaranteed := True)",
        "class A:\n    def guaranteed(self):\n        return True",
    ],
)
def test_decisions_are_recognized(source: str) -> None:
    assert decisions(source)


@pytest.mark.parametrize(
    "source",
    [
        "Interval(guaranteed=label.guaranteed)",
        "row['guaranteed'] = all(interval.guaranteed for interval in intervals)",
        "class A:\n    guaranteed: bool",
        "{'guaranteed': self.guaranteed}",
        "interval.guaranteed and print('guaranteed')",
    ],
)
def test_passing_a_label_on_is_no_decision(source: str) -> None:
    assert decisions(source) == []


def test_the_label_is_decided_in_one_place() -> None:
    home = PACKAGE / "core" / "label.py"
    sources = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    assert decisions(sources.pop(home)) == ["not reasons"] * 2
    elsewhere = {
        str(path.relative_to(PACKAGE)): places
        for path, source in sources.items()
        if (places := decisions(source))
    }
    assert elsewhere == {}
    users = [path.name for path, text in sources.items() if "guaranteed=label.guaranteed" in text]
    assert sorted(users) == ["band.py", "inference.py"]
