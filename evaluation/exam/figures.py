"""The figures of the exam, each with its interval, for every method and set of families.

A fault counts as found if a finding is a true alarm of it and the steps of its job are right. So a
job that is refused, or whose steps are wrong, counts as missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from evaluation.exam.answers import BINS
from evaluation.exam.intervals import Estimate, events, mean_of, middle, part, rate, share
from evaluation.exam.measuring import STRUCTURE

Row = dict[str, Any]
NEAR = 0.01
"""Of the time of the steps of a fault, by which its cost may be wrong."""
SLOWDOWNS = (0.0, 0.01, 0.03, 0.06, 0.12, 0.25, np.inf)
WINDOWS = (1, 2, 5, 9, 21, np.inf)
"""First number of steps of each group of windows."""
SETS = ("develop", "exam")


def figures_of(results: Sequence[Row]) -> dict[str, Any]:
    """All figures of some results: ``set -> method -> figure``."""
    return {
        name: {method: _of_method(own, method) for method in own[0]["methods"]}
        for name in SETS
        if (own := [result for result in results if result["set"] == name])
    }


def faults_of(results: Iterable[Row], method: str) -> list[Row]:
    """A row for each fault: what it did, what was found of it, and its world."""
    return [
        fault | grade | {"telemetry": result["telemetry"], "family": result["family"]}
        for result in results
        for fault, grade in zip(result["faults"], result["methods"][method]["faults"], strict=True)
    ]


def _of_method(results: Sequence[Row], method: str) -> dict[str, Any]:
    faults = faults_of(results, method)
    return {
        "worlds": len(results),
        "faults": len(faults),
        "due": sum(row["due"] for row in faults),
        "structure": _structure(results, method),
        "findings": findings(results, method),
        "groups": {name: _grouped(faults, of) for name, of in GROUPS.items()},
        "calibration": calibration(results, method),
        "cpu_s": mean_of([result["methods"][method]["cpu_s"] for result in results]),
    }


def _structure(results: Sequence[Row], method: str) -> dict[str, Estimate]:
    grades = [result["methods"][method] for result in results]
    refused = sum(grade["refused"] is not None for grade in grades)
    return {name: mean_of([grade["structure"][name] for grade in grades]) for name in STRUCTURE} | {
        "refused": share(refused, len(grades))
    }


def findings(results: Sequence[Row], method: str) -> dict[str, Estimate]:
    """The figures about faults of one method."""
    faults = faults_of(results, method)
    due = [row for row in faults if row["due"]]
    hits = [row for row in due if found(row)]
    shown = [row for row in due if row["shown"] and row["culprit_seen"]]
    costs = [row["cost"] for row in hits if row["cost"] is not None]
    delays = [row["delay"] for row in hits if row["delay"] is not None]
    named = [row["set_size"] for row in hits]
    grades = [result["methods"][method] for result in results]
    healthy = [result for result in results if not result["faults"]]
    false = [result["methods"][method]["false"] for result in healthy]
    return {
        "recall": of(due, found),
        "recall where steps show the fault": of(shown, found),
        "steps of the job right": of(due, lambda row: row["steps_right"]),
        "precision": part([g["true"] for g in grades], [g["findings"] for g in grades]),
        "culprit first": of(due, lambda row: found(row) and row["first"]),
        "culprit in the named set": of(due, lambda row: found(row) and row["in_set"]),
        "size of the named set": mean_of(named),
        "cause right": of(hits, lambda row: row["cause"]),
        "cause right, or one of those named": of(hits, lambda row: row["one_of_causes"]),
        "cost within 1 point": share(sum(cost <= NEAR for cost in costs), len(costs)),
        "delay in steps, median": middle(delays),
        "false findings in 1,000 healthy job-steps": events(
            false, [result["job_steps"] / 1000 for result in healthy]
        ),
    }


def found(row: Row) -> bool:
    """Whether a fault is found, in a job whose steps are right."""
    return bool(row["detected"] and row["steps_right"])


def of(rows: Sequence[Row], holds: Callable[[Row], Any]) -> Estimate:
    """The share of ``rows`` that satisfy a condition."""
    return share(sum(bool(holds(row)) for row in rows), len(rows))


def _grouped(faults: Sequence[Row], groups_of: Callable[[Row], Iterable[str]]) -> dict[str, Any]:
    """Recall and culprits of the faults in every group; a fault may be in several."""
    groups: dict[str, list[Row]] = {}
    for row in faults:
        for name in groups_of(row):
            groups.setdefault(name, []).append(row)
    return {
        name: {
            "recall": of(own, found),
            "culprit first": of(own, lambda row: found(row) and row["first"]),
            "culprit in the named set": of(own, lambda row: found(row) and row["in_set"]),
        }
        for name, own in sorted(groups.items())
    }


def _due(name: Callable[[Row], str]) -> Callable[[Row], Iterable[str]]:
    return lambda row: [name(row)] if row["due"] else []


def _slowdown(row: Row) -> Iterable[str]:
    """The group of every fault that goes on, also of one that is not due."""
    value = row["slowdown"]
    if row["stops"] or value is None:
        return
    for number, (low, high) in enumerate(pairwise(SLOWDOWNS)):
        if low <= max(0.0, value) < high:
            last = f"{100 * low:g} % and more"
            yield f"{number}: " + (last if high == np.inf else f"{100 * low:g} to {100 * high:g} %")


def _window(row: Row) -> str:
    steps = row["window_steps"]
    if steps is None:
        return "9: until the job stops"
    number = next(n for n, last in enumerate(WINDOWS[1:]) if steps < last)
    low, high = WINDOWS[number], WINDOWS[number + 1] - 1
    if high == np.inf:
        return f"{number}: {low:g} and more"
    return f"{number}: {low:g}" if low == high else f"{number}: {low:g} to {high:g}"


def _from_first(row: Row) -> str:
    if not row["from_first"]:
        return "no"
    if row["stops"]:
        return "yes, and the job stops"
    return "yes, with peers" if row["peers"] else "yes, without peers"


GROUPS: Mapping[str, Callable[[Row], Iterable[str]]] = {
    "slowdown of the job": _slowdown,
    "steps of the window": _due(_window),
    "from the first record on": _due(_from_first),
    "telemetry": lambda row: row["telemetry"] if row["due"] else [],
    "kind of fault": _due(lambda row: row["kind"]),
}
"""How faults are grouped. Only those that are due count, except by slowdown."""


def calibration(results: Sequence[Row], method: str) -> dict[str, Any]:
    """Brier score of every table with a confidence, and its answers by confidence."""
    made: dict[str, Any] = {}
    for name in results[0]["methods"][method]["answers"]:
        counts = np.array([result["methods"][method]["answers"][name] for result in results])
        answers, squares = counts[:, :, 0].sum(axis=1), counts[:, :, 3].sum(axis=1)
        made[name] = {
            "answers": int(answers.sum()),
            "brier": rate([*squares], [*answers]),
            "bins": [*_bins(counts.sum(axis=0))],
        }
    return made


def _bins(sums: Any) -> Iterable[Row]:
    for (low, high), (number, sure, right, _) in zip(pairwise(BINS), sums, strict=True):
        if number:
            yield {
                "from": low,
                "to": high,
                "confidence": round(float(sure / number), 4),
                "right": share(int(right), int(number)),
            }
