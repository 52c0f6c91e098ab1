"""The figures of the exam, each with its interval, for every method and set of families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from evaluation.exam.answers import BINS
from evaluation.exam.intervals import Estimate, events, mean_of, middle, part, rate, share
from evaluation.exam.measures import HEADLINES, PARTED, Measure, faults_of, server_or_set
from evaluation.exam.measuring import STRUCTURE, Row

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


def all_faults(results: Iterable[Row], method: str) -> list[Row]:
    """A row for each fault: what it did, what was found of it, and its world."""
    return [
        row | {"telemetry": result["telemetry"], "family": result["family"]}
        for result in results
        for row in faults_of(result, result["methods"][method])
    ]


def _of_method(results: Sequence[Row], method: str) -> dict[str, Any]:
    faults = all_faults(results, method)
    return {
        "worlds": len(results),
        "faults": len(faults),
        "due": sum(row["due"] for row in faults),
        "structure": _structure(results, method),
        "findings": findings(results, method),
        "parts": estimates(PARTED, results, method),
        "groups": {name: _grouped(faults, of) for name, of in GROUPS.items()},
        "calibration": calibration(results, method),
        "cpu_s": mean_of([result["methods"][method]["cpu_s"] for result in results]),
    }


def _structure(results: Sequence[Row], method: str) -> dict[str, Estimate]:
    grades = [result["methods"][method] for result in results]
    refused = sum(grade["refused"] is not None for grade in grades)
    means = {
        name: mean_of([grade["structure"].get(name) for grade in grades]) for name in STRUCTURE
    }
    return means | {"refused": share(refused, len(grades))}


def findings(results: Sequence[Row], method: str) -> dict[str, Estimate]:
    """The figures about all faults and findings of one method."""
    faults = all_faults(results, method)
    delays = [row["delay"] for row in faults if row["due"] and row["delay"] is not None]
    return estimates(HEADLINES, results, method) | {"delay in steps, median": middle(delays)}


def estimates(
    measures: Iterable[Measure], results: Sequence[Row], method: str
) -> dict[str, Estimate]:
    """Every measure with its interval.

    Shares and rates of events have the wider one of the bootstrap over worlds and of a formula.
    """
    made: dict[str, Estimate] = {}
    for measure in measures:
        counts = [measure.counts(result, result["methods"][method]) for result in results]
        hits, sizes = ([pair[place] for pair in counts] for place in (0, 1))
        if measure.unit == "share":
            made[measure.name] = part(hits, sizes)
        elif measure.is_rate:
            made[measure.name] = events(hits, sizes)
        else:
            made[measure.name] = rate(hits, sizes)
    return made


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
            "recall": of(own, lambda row: row["detected"]),
            "culprit first": of(own, lambda row: row["first"]),
            "right server, or in the set": of(own, server_or_set),
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
