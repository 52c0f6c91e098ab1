"""Several methods on the same worlds: each world is simulated once, and diagnosed by all.

Every method, those of this package too, runs in a process of its own without the truth
(:mod:`llmprism.isolation`), so time and memory are measured in the same way. If a method fails, the
reason is kept, and its figures are those of a diagnosis that finds nothing. Finished worlds are
saved, so an interrupted comparison continues.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from llmprism.isolation.runner import INVALID, Limits, MethodError
from llmprism.pipeline import diagnose_apart, empty_diagnosis
from prism_common.errors import Problem, UserError
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.score import score_run
from prism_sim.score.encoding import flatten
from prism_sim.studies.fingerprints import fingerprint, method_fingerprint
from prism_sim.studies.kept import Piece, refuse_foreign_pieces, results_of

NULL = "null"
"""The method that is in every comparison."""

COLUMNS = (
    *("group", "world", "seed", "method", "reason", "error", "seconds", "peak_memory_bytes"),
    "left_out",
)
"""Columns of a table of results, before those of the figures."""


@dataclass(frozen=True)
class World:
    """A scenario to compare methods on.

    Attributes
    ----------
    group : the set or family that it belongs to.
    label : distinguishes it from others of the same name and seed.
    """

    group: str
    scenario: Scenario
    label: str = ""

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return self.label or f"{self.scenario.name} seed {self.scenario.seed}"


@dataclass(frozen=True)
class _Task:
    scenario: Scenario
    methods: tuple[str, ...]
    limits: Limits


def with_null(methods: Sequence[str]) -> tuple[str, ...]:
    """``methods``, each once, and the one that knows nothing."""
    return tuple(dict.fromkeys([*methods, NULL]))


def measure(
    worlds: Sequence[World],
    methods: Sequence[str],
    folder: Path,
    limits: Limits,
    processes: int,
    progress: Callable[[float, str], None] | None = None,
) -> pd.DataFrame:
    """Diagnose every world with every method; a row for each, with :data:`COLUMNS` and all figures.

    Parameters
    ----------
    folder : finished worlds are saved in ``<folder>/worlds``.

    Raises
    ------
    UserError : a world could not be simulated.
    """
    tasks = [_Task(world.scenario, tuple(methods), limits) for world in worlds]
    pieces = [
        Piece(_key(task), world.name, task) for world, task in zip(worlds, tasks, strict=True)
    ]
    kept = folder / "worlds"
    refuse_foreign_pieces(kept)
    results = results_of(
        _measured, pieces, kept, processes, progress, True, result="rows", is_result=_are_rows
    )
    failed = [Problem(one["error"], one["case"]) for one in results if one.get("error")]
    if failed:
        raise UserError(failed)
    return pd.DataFrame(
        [
            {"group": world.group, "world": world.name, "seed": world.scenario.seed, **row}
            for world, result in zip(worlds, results, strict=True)
            for row in result["rows"]
        ]
    )


def _are_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _key(task: _Task) -> str:
    """Hash of everything that the results of a world depend on."""
    values = task.scenario.model_dump(mode="json", exclude={"name", "description"})
    code = [fingerprint(), *((name, method_fingerprint(name)) for name in task.methods)]
    limits = (task.limits.time_s, task.limits.memory_bytes)
    text = json.dumps([code, limits, values], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _measured(task: _Task) -> dict[str, Any]:
    from prism_sim.simulate import simulated

    with simulated(task.scenario) as run:
        return {"rows": [*_rows(run, task)]}


def _rows(run: Run, task: _Task) -> Iterator[dict[str, Any]]:
    for method in task.methods:
        row: dict[str, Any] = dict.fromkeys(COLUMNS[3:]) | {"method": method}
        try:
            diagnosis, usage = diagnose_apart(run.flows, run.topology, method, limits=task.limits)
            row |= {"seconds": usage.seconds, "peak_memory_bytes": usage.peak_memory_bytes}
            diagnosis.write(run.diagnosis_folder)
            yield row | {"left_out": " ".join(diagnosis.left_out)} | _figures(run)
        except MethodError as error:
            yield row | _failed(run, method, error.reason, str(error))
        except (ValueError, TypeError, KeyError, ArithmeticError) as error:
            text = f"its tables cannot be scored: {type(error).__name__}: {error}"
            yield row | _failed(run, method, INVALID, text)


def _failed(run: Run, method: str, reason: str, text: str) -> dict[str, Any]:
    """The reason, and the figures of a diagnosis that finds nothing."""
    empty_diagnosis(run.flows, run.topology, method).write(run.diagnosis_folder)
    return {"reason": reason, "error": text, **_figures(run)}


def _figures(run: Run) -> dict[str, float | None]:
    score = score_run(run)
    return {name: value for name, value in flatten(score.to_json()).items() if "meta." not in name}
