"""Runs the exam: every world in a process, each result in a file of its own.

A result is kept under a key of all that it depends on: the code of both packages, the code of the
measures, the scenario, and the methods. An interrupted run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from evaluation.exam import answers, measuring, truth
from evaluation.exam.worlds import RESULTS, World, scenario_of, worlds
from prism_sim.toolkit import Piece, default_processes, do_missing, fingerprint, kept_content

Task = tuple[World, Sequence[str]]
KEPT = RESULTS / "kept"


def results_of(of: str, number: int, methods: Sequence[str]) -> list[dict[str, Any]]:
    """The result of every world of a set, in order; missing ones are computed.

    A world that could not be measured is reported and left out.
    """
    asked = worlds(of, number)
    do_missing(
        measuring.measure,
        pieces(asked, methods),
        KEPT,
        default_processes(),
        lambda _, text: print(text, file=sys.stderr),
        total=len(asked),
        result="result",
    )
    kept = [kept_content(KEPT, piece.key) for piece in pieces(asked, methods)]
    for one in kept:
        if "error" in one:
            print(f"left out: {one['case']}: {one['error']}", file=sys.stderr)
    return [one["result"] for one in kept if "result" in one]


def pieces(asked: Iterable[World], methods: Sequence[str]) -> Iterator[Piece[Task]]:
    """The work for each of the worlds."""
    for world in asked:
        yield Piece(_key(world, methods), f"{world.family} {world.seed}", (world, methods))


def _key(world: World, methods: Sequence[str]) -> str:
    values = scenario_of(world).model_dump(mode="json", exclude={"description"})
    code = [Path(str(module.__file__)).read_text() for module in (measuring, truth, answers)]
    text = json.dumps([fingerprint(), code, values, [*methods]], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
