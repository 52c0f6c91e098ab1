"""The figures about findings: each is a sum over worlds, divided by another one.

So one definition gives a figure with its interval (:mod:`~evaluation.exam.figures`) and the paired
difference of two results (:mod:`~evaluation.exam.paired`).

A fault is *found* if a finding is an alarm of it (:mod:`prism_sim.score.alarms`). What the finding
names is judged by the surest of these: *first* is the culprit, *in the named set* also a set of at
most three that has it, *server* also another part of the same server or switch. Each has to lie in
the window of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evaluation.exam.measuring import STRUCTURE, Row

Holds = Callable[[Row], Any]
Unit = Literal["share", "number", "score"]

SURE = 0.9
"""Confidence from which on an operator acts on a finding."""
SHORT = 4
"""Steps of the longest short window."""


@dataclass(frozen=True)
class Measure:
    """One figure.

    Attributes
    ----------
    counts : from the result of a world, and one grade in it, what is counted and out of how many.
    unit : of the figure; a share is written in percent.
    is_rate : whether it counts events in an amount of work.
    """

    name: str
    counts: Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[float, float]]
    unit: Unit = "share"
    more_is_better: bool = True
    is_rate: bool = False

    def plain(self, value: float, *, sign: bool = False) -> str:
        """``value`` in the unit of the figure."""
        shown, digits = {"share": (100 * value, 1), "number": (value, 1), "score": (value, 3)}[
            self.unit
        ]
        return f"{shown:{'+' if sign else ''}.{digits}f}"

    def written(self, value: float | None) -> str:
        """``value`` for a table."""
        if value is None:
            return "-"
        return self.plain(value) + (" %" if self.unit == "share" else "")


def is_due(fault: Row) -> bool:
    """Whether a fault has to be found."""
    return bool(fault["due"])


def is_short(fault: Row) -> bool:
    """Whether a fault lasts :data:`SHORT` steps at most, and does not stop its job."""
    return fault["window_steps"] is not None and fault["window_steps"] <= SHORT


def is_old(fault: Row) -> bool:
    """Whether a fault is older than the records, and its culprit can be compared with others."""
    return bool(fault["from_first"] and fault["peers"] and not fault["stops"])


def is_beside(fault: Row) -> bool:
    """Whether a fault is one of computing where a server has several workers of the job."""
    return bool(fault["computing"] and fault["workers"] > 1)


def server_or_set(row: Row) -> bool:
    """Whether the server is right, or a named set of at most three has a part of it."""
    return bool(row["near"] or row["in_set"])


def _share(name: str, holds: Holds, among: Holds = is_due) -> Measure:
    """The share of faults ``among`` all that satisfy a condition, by what was found of them."""

    def counts(world: Mapping[str, Any], grade: Mapping[str, Any]) -> tuple[float, float]:
        own = [row for row in faults_of(world, grade) if among(row)]
        return sum(bool(holds(row)) for row in own), len(own)

    return Measure(name, counts)


def _counts(finding: Row) -> bool:
    return bool(finding["counts"])


def _of_findings(name: str, holds: Holds, among: Holds = _counts, *, more: bool = True) -> Measure:
    """The share of findings, ``among`` all, that satisfy a condition."""

    def counts(_: Mapping[str, Any], grade: Mapping[str, Any]) -> tuple[float, float]:
        own = [row for row in grade["findings"] if among(row)]
        return sum(bool(holds(row)) for row in own), len(own)

    return Measure(name, counts, more_is_better=more)


def _structure(name: str) -> Measure:
    """The mean over worlds of a figure of the structure."""

    def counts(_: Mapping[str, Any], grade: Mapping[str, Any]) -> tuple[float, float]:
        value = grade["structure"].get(name)
        return (0.0, 0.0) if value is None else (float(value), 1.0)

    return Measure(name, counts, more_is_better=not name.endswith("error"))


def _false(world: Mapping[str, Any], grade: Mapping[str, Any]) -> tuple[float, float]:
    """False findings, and thousands of job-steps, of a world without faults."""
    if world["faults"]:
        return 0.0, 0.0
    return sum(row["counts"] for row in grade["findings"]), world["job_steps"] / 1000


def _brier(_: Mapping[str, Any], grade: Mapping[str, Any]) -> tuple[float, float]:
    own = [row for row in grade["findings"] if row["counts"]]
    return sum((row["confidence"] - row["first"]) ** 2 for row in own), len(own)


def _alarms(_: Mapping[str, Any], grade: Mapping[str, Any]) -> tuple[float, float]:
    return sum(row["counts"] for row in grade["findings"]), 1


def _sizes(world: Mapping[str, Any], grade: Mapping[str, Any]) -> tuple[float, float]:
    sizes = [row["set_size"] for row in faults_of(world, grade) if row["due"] and row["detected"]]
    return sum(sizes), len(sizes)


def faults_of(world: Mapping[str, Any], grade: Mapping[str, Any]) -> Iterable[Row]:
    """A row for each fault of a world: what it did, and what was found of it."""
    for fault, found in zip(world["faults"], grade["faults"], strict=True):
        yield fault | found


def _found(row: Row) -> bool:
    return bool(row["detected"])


def _first(row: Row) -> bool:
    return bool(row["first"])


def _is_sure(finding: Row) -> bool:
    return _counts(finding) and finding["confidence"] >= SURE


def _is_wrong(finding: Row) -> bool:
    return not server_or_set(finding)


HEADLINES = (
    _share("recall", _found),
    _share("recall where steps show the fault", _found,
           lambda row: row["due"] and row["shown"] and row["culprit_seen"]),
    _share("culprit first", _first),
    _share("culprit in a named set of at most three", lambda row: row["in_set"]),
    _share("right server", lambda row: row["server"]),
    _share("right server, or in the set", server_or_set),
    _of_findings("precision", _first),
    _of_findings("precision, right server or in the set", server_or_set),
    _of_findings("sure and wrong", _is_wrong, _is_sure, more=False),
    Measure("Brier score of culprits", _brier, "score", more_is_better=False),
    Measure("false findings in 1,000 healthy job-steps", _false, "number", more_is_better=False,
            is_rate=True),
    Measure("findings of a world", _alarms, "number", more_is_better=False),
    Measure("size of the named set", _sizes, "number", more_is_better=False),
    _share("cause right", lambda row: row["cause"], lambda row: row["due"] and row["detected"]),
    _share("cause right, or one of those named", lambda row: row["one_of_causes"],
           lambda row: row["due"] and row["detected"]),
    _share("cost within 1 point, or both bounds hold it", lambda row: row["cost_right"],
           lambda row: row["due"] and row["detected"] and row["cost_right"] is not None),
    _share("steps of the job right", lambda row: row["steps_right"]),
)  # fmt: skip
"""Of all due faults, all findings that count, and all worlds."""

PARTS: Mapping[str, Holds] = {
    "1 to 4 steps": is_short,
    "from the first record on, with peers": is_old,
    "computing, several workers a server": is_beside,
}
"""Groups of due faults that are hard."""


def _among(part: Holds) -> Holds:
    return lambda row: is_due(row) and part(row)


PARTED = tuple(
    _share(f"{what}: {name}", holds, _among(part))
    for name, part in PARTS.items()
    for what, holds in (
        ("recall", _found),
        ("culprit first", _first),
        ("right server, or in the set", server_or_set),
    )
)  # fmt: skip

MEASURES = (*HEADLINES, *PARTED, *map(_structure, STRUCTURE))
"""Every figure that two results are compared by."""
