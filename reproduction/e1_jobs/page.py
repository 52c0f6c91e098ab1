"""E1 on the page: the number of exact jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reproduction import pages
from reproduction.base import METHOD, OTHER_METHOD, Done
from reproduction.e1_jobs.measure import KINDS
from reproduction.pages import with_range

_LABELS = {"large": "jobs of two servers or more", "small": "single-server jobs among them"}
_GPUS = 8  # of a server


def section(done: Sequence[Done]) -> str:
    """The published figures and ours, and the jobs of the first draw."""
    first = done[0]
    scenario = first.trial.scenario
    return pages.text(
        "e1",
        gpus=f"{scenario.cluster.gpus:,}",
        jobs=len(scenario.jobs),
        window=f"{scenario.duration_s:g}",
        rows=[row for kind in KINDS if (of := _of(done, kind)) for row in _rows(kind, of)],
        small=_small(done),
        seed=scenario.seed,
        kind=_kind(first),
        drawn=first.result["jobs"],
    )


def _small(done: Sequence[Done]) -> dict[str, Any] | None:
    """Figures about single-server jobs, if these were drawn."""
    small = [one.result for one in _of(done, "small")]
    if not small:
        return None
    single = [sum(job["gpus"] <= _GPUS for job in result["jobs"]) for result in small]
    return {
        "missed": with_range(single),
        "true": small[0]["true"],
        "found": with_range([result["found"] for result in small]),
    }


def _kind(one: Done) -> str:
    return _LABELS[one.trial.settings["kind"]]


def _of(done: Sequence[Done], kind: str) -> list[Done]:
    return [one for one in done if one.trial.settings["kind"] == kind]


def _rows(kind: str, done: Sequence[Done]) -> Iterator[dict[str, Any]]:
    """Numbers of inferred and exact jobs, and of draws in which all are exact, by each method."""
    runs = [one.result for one in done]
    others = [result[OTHER_METHOD] for result in runs]
    methods = ((f"ours, {_LABELS[kind]}", METHOD, runs), ("the same", OTHER_METHOD, others))
    for label, method, found in methods:
        all_exact = sum(r["exact"] == max(r["true"], r["found"]) for r in found)
        yield {"label": label, "method": method, "found": found, "all_exact": all_exact,
               "runs": runs, "millions": [r["records"] / 1e6 for r in runs]}  # fmt: skip


def gaps(done: Sequence[Done]) -> list[str]:
    """The difference from the publication that remains."""
    large = [one.result for one in _of(done, "large")]
    exact = sum(result["exact"] == result["true"] for result in large)
    return pages.paragraphs("e1-gaps", exact=exact, draws=len(large))
