"""Runs the worlds, and writes the figures of the section of ``exam.md`` about counters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.counters.measuring import INTERVALS_S, measure
from evaluation.exam import log
from evaluation.exam.counters import FIGURES
from evaluation.exam.figures import figures_of
from evaluation.exam.intervals import middle, share
from evaluation.exam.worlds import RESULTS, worlds
from prism_sim.toolkit import Piece, default_processes, fingerprint, kept_results


def compute(of: str, number: int) -> dict[str, Any]:
    """Measure worlds that have no result yet, and return the figures of all."""
    asked = [(world, INTERVALS_S) for world in worlds(of, number)]
    pieces = [
        Piece(f"{fingerprint()[:12]}-{world.family}-{world.seed}", world.family, (world, intervals))
        for world, intervals in asked
    ]
    kept = RESULTS / "counters-kept"
    every = kept_results(measure, pieces, kept, default_processes(), lambda _, text: print(text))
    results = [content["result"] for content in every if "result" in content]
    return {
        "date": log.today(),
        "commit": log.commit(),
        "worlds": number,
        "left_out": len(pieces) - len(results),
        "sets": {
            name: {method: own | _periods(results, name, method) for method, own in methods.items()}
            for name, methods in figures_of(results).items()
        },
    }


def _periods(results: Sequence[Mapping[str, Any]], of: str, method: str) -> dict[str, Any]:
    """Share of the jobs with a length of a step, and its error."""
    own = [result["methods"][method] for result in results if result["set"] == of]
    errors = [error for grade in own for error in grade["period_errors"]]
    given, true = (sum(grade[key] for grade in own) for key in ("periods", "true_jobs"))
    right = sum(error < 0.05 for error in errors)
    return {
        "period": {
            "step length given": share(given, true),
            "within 5 % of the truth, of those given": share(right, given),
            "error of the step length, median": middle(errors),
        }
    }


def write(of: str, number: int, to: Path = FIGURES) -> None:
    """Write the figures; a run of the held-out families is a line of the log."""
    figures = json.loads(json.dumps(_shown(compute(of, number)), default=float))
    to.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if of != "develop":
        log.append(_logged(figures))


def _shown(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures that the page and the log have, with four significant digits."""
    sets = {
        name: {
            method: {"worlds": own["worlds"], "due": own["due"]}
            | {
                part: {key: _rounded(one) for key, one in own[part].items()}
                for part in ("structure", "period", "findings")
            }
            for method, own in methods.items()
        }
        for name, methods in figures["sets"].items()
    }
    return {**figures, "sets": sets}


def _rounded(estimate: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in estimate.items()
    }


def _logged(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures with names of methods that say what they are."""
    sets = {
        name: {f"counters, {method}": own for method, own in methods.items()}
        for name, methods in figures["sets"].items()
    }
    return {**figures, "sets": sets}
