"""The page of the exam: a pure function of its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.exam.intervals import Estimate
from evaluation.paths import TEMPLATES
from prism_sim.toolkit import render_page, table

PLAIN = (
    "size of the named set",
    "findings of a world",
    "delay in steps, median",
    "false findings in 1,000 healthy job-steps",
    "seconds of computing",
)
"""Figures that are no shares."""
SCORES = ("Brier score of culprits",)
"""Figures between 0 and 1 that are no shares."""
MAIN = "prism"
"""The method whose groups are shown."""


def page_of(figures: Mapping[str, Any]) -> str:
    """The page with these figures."""
    sets = figures["sets"]
    return render_page(
        TEMPLATES,
        "exam",
        figures=figures,
        summary=summary(figures) if "exam" in sets else "",
        main=MAIN,
        sizes={name: next(iter(methods.values())) for name, methods in sets.items()},
        findings=_overview(sets, "findings"),
        parts=_overview(sets, "parts"),
        structure=_overview(sets, "structure"),
        computing=_overview(
            {
                name: {m: {"of": {"seconds of computing": own["cpu_s"]}} for m, own in part.items()}
                for name, part in sets.items()
            },
            "of",
        ),
        groups=[(name, _groups(sets, name)) for name in _of_main(sets, "groups")],
        brier=_brier(sets),
        reliability=_reliability(sets),
    )


def summary(figures: Mapping[str, Any]) -> str:
    """The figures of the main method on the held-out families, in a few sentences."""
    own = figures["sets"]["exam"][MAIN]
    shown = {name: written(name, estimate) for name, estimate in own["findings"].items()}
    healthy = shown["false findings in 1,000 healthy job-steps"]
    sure = own["findings"]["sure and wrong"]["of"]
    return (
        f"on {own['worlds']} worlds of held-out families, `{MAIN}` finds {shown['recall']} of the "
        f"{own['due']} faults that slow a job by 3 % or more, or stop it. It names the culprit "
        f"first for {shown['culprit first']}, and the right server, or a set of at most three with "
        f"a part of it, for {shown['right server, or in the set']}. Of its findings, "
        f"{shown['precision']} name the culprit in its window. *Sure and wrong*: "
        f"{_sure(sure, shown['sure and wrong'])}. Healthy jobs have {healthy} false findings in "
        f"1,000 job-steps (in brackets: 95 % intervals)."
    )


def _sure(number: int, wrong: str) -> str:
    if not number:
        return "none has a confidence of 0.9 or more"
    return f"of the {number} with a confidence of 0.9 or more, {wrong} name another server"


def written(name: str, estimate: Estimate) -> str:
    """A value with its interval: in percent, unless it is no share."""
    if estimate["value"] is None:
        return "-"
    value, low, high = (estimate[key] for key in ("value", "low", "high"))
    if name in PLAIN:
        return f"{value:.1f} ({low:.1f} to {high:.1f})"
    if name in SCORES:
        return f"{value:.3f} ({low:.3f} to {high:.3f})"
    digits = 2 if name.endswith("error") else 0
    return f"{100 * value:.{digits}f} % ({100 * low:.{digits}f} to {100 * high:.{digits}f})"


def _columns(sets: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Sets and methods in the order of the tables."""
    return [(name, method) for name, methods in sets.items() for method in methods]


def _overview(sets: Mapping[str, Any], part: str) -> str:
    """Every figure of one part, for each set and method."""
    columns = _columns(sets)
    first = sets[columns[0][0]][columns[0][1]][part]
    rows = [
        [name, *(written(name, sets[of][method][part][name]) for of, method in columns)]
        for name in first
    ]
    return table(["figure", *(f"`{method}`, {of}" for of, method in columns)], rows)


def _of_main(sets: Mapping[str, Any], part: str) -> Iterable[str]:
    return [*next(iter(sets.values()))[MAIN][part]]


def _groups(sets: Mapping[str, Any], grouping: str) -> str:
    """Recall and culprits of the main method in every group of one grouping, for each set."""
    parts = {name: methods[MAIN]["groups"][grouping] for name, methods in sets.items()}
    groups = sorted({group for part in parts.values() for group in part})
    shown = ("recall", "culprit first", "right server, or in the set")
    head = [f"{figure}, {name}" for name in parts for figure in ("faults", *shown)]
    rows = [
        [_label(group), *(cell for part in parts.values() for cell in _cells(part, group, shown))]
        for group in groups
    ]
    return table([grouping, *head], rows)


def _cells(part: Mapping[str, Any], group: str, shown: Sequence[str]) -> list[str]:
    if group not in part:
        return ["0", *("-" for _ in shown)]
    return [str(part[group][shown[0]]["of"]), *(written(name, part[group][name]) for name in shown)]


def _label(group: str) -> str:
    """The name of a group, without the number that sorts it."""
    return group.partition(": ")[2] or group


def _brier(sets: Mapping[str, Any]) -> str:
    columns = _columns(sets)
    tables = [*sets[columns[0][0]][columns[0][1]]["calibration"]]
    rows = [
        [name, *(_score(sets[of][method]["calibration"][name]) for of, method in columns)]
        for name in tables
    ]
    return table(["Brier score", *(f"`{method}`, {of}" for of, method in columns)], rows)


def _score(own: Mapping[str, Any]) -> str:
    brier = own["brier"]
    if brier["value"] is None:
        return "-"
    bounds = f"{brier['low']:.3f} to {brier['high']:.3f}"
    return f"{brier['value']:.3f} ({bounds}; {own['answers']:,})"


def _reliability(sets: Mapping[str, Any]) -> str:
    rows = [
        [
            name if not number else "",
            of,
            f"{one['from']:g} to {one['to']:g}",
            f"{one['confidence']:.2f}",
            written("share", one["right"]),
            f"{one['right']['of']:,}",
        ]
        for name in _of_main(sets, "calibration")
        for of, methods in sets.items()
        for number, one in enumerate(methods[MAIN]["calibration"][name]["bins"])
    ]
    head = ["answers", "set", "confidence", "mean confidence", "share right", "number"]
    return table(head, rows)
