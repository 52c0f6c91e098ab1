"""Runs the exam: every world and method is a piece of work, each result in a file of its own.

A result is kept under a key of all that it depends on: the code of the packages, the code of the
measures, the scenario, and the method. An interrupted run continues where it stopped, and another
method, or more worlds, repeat nothing.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from evaluation.exam import answers, measuring, truth
from evaluation.exam.measuring import Task
from evaluation.exam.worlds import RESULTS, World, families
from prism_sim.toolkit import Content, Piece, default_processes, fingerprint, kept_results

Row = dict[str, Any]


def results_of(
    asked: Sequence[World],
    methods: Sequence[str],
    kept: Path = RESULTS,
    processes: int | None = None,
) -> list[Row]:
    """The result of every world, in order; missing ones are computed.

    A world that could not be measured is reported and left out.
    """
    found = kept_results(
        measuring.measure,
        [piece for method in methods for piece in pieces(asked, method, kept)],
        kept / "kept",
        processes or default_processes(),
        lambda _, text: print(text, file=sys.stderr),
    )
    joined = [_joined(found[at :: len(asked)]) for at in range(len(asked))]
    return [row for row in joined if row is not None]


def pieces(asked: Iterable[World], method: str, kept: Path = RESULTS) -> Iterator[Piece[Task]]:
    """The work for each of the worlds with one method."""
    for world in asked:
        name = f"{method} {world.family} {world.seed}"
        yield Piece(_key(world, method), name, Task(world, method, kept))


def _joined(found: Sequence[Content]) -> Row | None:
    """The result of one world with the grades of all methods; None if one could not be measured."""
    for one in found:
        if "error" in one:
            print(f"left out: {one['case']}: {one['error']}", file=sys.stderr)
            return None
    grades = {method: row for one in found for method, row in one["result"]["methods"].items()}
    first: Row = found[0]["result"]
    return first | {"methods": grades}


def _key(world: World, method: str) -> str:
    family = families()[world.family].model_dump(mode="json")
    text = json.dumps([fingerprint(), _measures(), family, world.seed, method], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@cache
def _measures() -> list[str]:
    """The code of the measures."""
    return [Path(str(module.__file__)).read_text() for module in (measuring, truth, answers)]
