"""Shares of correct pairs in the results of E2, by window, collector and disturbance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prism_sim.toolkit import paint
from reproduction.base import OTHER_METHOD, Done
from reproduction.e2_pairs.levels import (
    CACHE,
    MESSAGES,
    UNDISTURBED,
)

PUBLISHED = {60: 0.9600, 180: 0.9793, 300: 0.9803, 600: 0.9961}
"""Accuracy without refinement by window [s] (table I); with it, 1 at all four."""

RAW, REFINED, OTHER = "accuracy_unrefined", "accuracy", "accuracy_other"
LOOK = {
    RAW: (paint.KINDS["dp"], "without refinement"),
    REFINED: (paint.REBUILT, "with refinement"),
}
OTHER_LOOK = (paint.KINDS["pp"], f"method {OTHER_METHOD}")

NAMES = {
    UNDISTURBED: "undisturbed",
    MESSAGES: "lossy, messages known",
    CACHE: "lossy, flow cache",
}
"""Names of the collectors on the page."""


def levels_of(done: Sequence[Done], disturbance: str) -> list[float]:
    entries = (entry for one in done for entry in one.result["curves"])
    return sorted({entry["level"] for entry in entries if entry["disturbance"] == disturbance})


def windows_of(done: Sequence[Done]) -> list[int]:
    return sorted({entry["window_s"] for one in done for entry in one.result["windows"]})


Chosen = Callable[[dict[str, Any]], dict[str, Any]]
"""Finds one score in a trial's result."""


def at(window_s: int, collector: str) -> Chosen:
    def choose(result: dict[str, Any]) -> dict[str, Any]:
        wanted = (window_s, collector)
        entries: list[dict[str, Any]] = result["windows"]
        return next(e for e in entries if (e["window_s"], e["collector"]) == wanted)

    return choose


def at_level(disturbance: str, level: float) -> Chosen:
    def choose(result: dict[str, Any]) -> dict[str, Any]:
        entries: list[dict[str, Any]] = result["curves"]
        return next(e for e in entries if (e["disturbance"], e["level"]) == (disturbance, level))

    return choose


def windows_of_other(done: Sequence[Done]) -> list[int]:
    """The windows that the other method diagnosed too."""
    known = {e["window_s"] for one in done for e in one.result["windows"] if OTHER in e}
    return sorted(known)


def by_seed(done: Sequence[Done], choose: Chosen, what: str) -> list[float]:
    """Share of correct pairs over all jobs of a seed, one value for each seed."""
    right: dict[int, float] = {}
    total: dict[int, int] = {}
    for one in done:
        entry, seed = choose(one.result), one.trial.scenario.seed
        right[seed] = right.get(seed, 0.0) + entry["total"] * entry[what]
        total[seed] = total.get(seed, 0) + entry["total"]
    return [right[seed] / total[seed] for seed in right]


def mean_of(values: list[float]) -> float:
    return sum(values) / len(values)


def span(window_s: float) -> str:
    return f"{window_s // 60:g} min" if window_s % 60 == 0 else f"{window_s:g} s"


def short(level: float) -> str:
    return f"{level:g}" if 1e-3 <= level < 1e4 else f"{level:.2g}".replace("e-0", "e-")
