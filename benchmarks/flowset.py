"""Flow sets as text, so that other simulators can run exactly the same flows.

A *flow set* is a :class:`~prism_sim.cluster.program.Program` as a text file: links with
capacities, routes over links, and flows that wait for each other. The file has numbers
separated by white space, and all indices start at 0. Lines that start with ``#`` are remarks.
Remarks are only allowed before the first section:

.. code-block:: text

    # prism flow set 1
    links <L>
    <capacity [bytes/s]>                                       one line per link
    routes <R>
    <n> <link> ... <link>                                      one line per route
    flows <F>
    <size [bytes]> <latency [ns]> <route> <n> <flow> ... <flow>  one line per flow

The last numbers of a flow are its predecessors. A flow whose last predecessor ends at t
(0 if it has none) sends its first byte at t + latency and ends with its last byte. Flows that
are active at the same time share links max-min fairly. A route uses each of its links once.

An *answer* is a text file too: the end of every flow [ns, fractions allowed], one per line, in
the order of the flows, with remarks as above.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.program import Program
from prism_sim.cluster.templates import Templates

TITLE = "# prism flow set 1"
_NS = 1e9


def write_flow_set(program: Program, path: Path, remarks: str = "") -> None:
    """Write ``program`` to ``path``, with ``remarks`` at its top.

    Raises
    ------
    ValueError : a route uses one link twice, which other simulators do not support.
    """
    lines = [TITLE, *(f"# {line}" for line in remarks.splitlines())]
    lines += _links(program) + _routes(program) + _flows(program)
    path.write_text("\n".join(lines) + "\n")


def _links(program: Program) -> list[str]:
    capacity = (program.capacity * _NS).tolist()
    return [f"links {len(capacity)}", *(f"{bytes_per_s:.17g}" for bytes_per_s in capacity)]


def _routes(program: Program) -> list[str]:
    t = program.templates
    used = t.via[: t.ptr[t.count]]
    if not (used["weight"] == 1).all():
        raise ValueError("a route of the flow set uses one of its links more than once")
    rows = np.split(used["link"], t.ptr[1 : t.count])
    return [f"routes {t.count}", *(_row(row) for row in rows)]


def _flows(program: Program) -> list[str]:
    before_ptr, before = predecessors(program)
    columns = zip(
        program.size_bytes.tolist(),
        program.latency_ns.tolist(),
        program.template.tolist(),
        np.split(before, before_ptr[1:-1]),
        strict=True,
    )
    rows = [f"{size} {latency} {route} {_row(row)}" for size, latency, route, row in columns]
    return [f"flows {len(rows)}", *rows]


def _row(numbers: NDArray[np.int32]) -> str:
    return " ".join(map(str, [len(numbers), *numbers.tolist()]))


def predecessors(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The predecessors of each flow, as compressed rows (``ptr``, ``flow``)."""
    flows = len(program.template)
    first = np.repeat(np.arange(flows, dtype=np.int32), np.diff(program.after_ptr))
    order = np.argsort(program.after, kind="stable")
    return pointers(program.waits_for), first[order]


def read_flow_set(path: Path) -> Program:
    """Read the program that :func:`write_flow_set` wrote to ``path``."""
    words = _Words(path)
    capacity = words.decimals(words.count("links")) / _NS
    templates = Templates()
    for _ in range(words.count("routes")):
        templates.add(words.row())
    flows = words.count("flows")
    size, latency, route = (np.zeros(flows, np.int64) for _ in range(3))
    before = []
    for flow in range(flows):
        size[flow], latency[flow], route[flow] = (words.number() for _ in range(3))
        before.append(words.row())
    return chained(capacity, templates, route.astype(np.int32), size, latency, before)


def chained(
    capacity: NDArray[np.float64],
    templates: Templates,
    template: NDArray[np.int32],
    size_bytes: NDArray[np.int64],
    latency_ns: NDArray[np.int64],
    before: Sequence[Sequence[int] | NDArray[np.int64]],
) -> Program:
    """A program of flows over ``templates``; ``before`` has the predecessors of each flow."""
    waits = np.array([len(row) for row in before], np.int32)
    first = np.concatenate([np.asarray(row, np.int64) for row in before])
    second = np.repeat(np.arange(len(before), dtype=np.int32), waits)
    after_ptr = pointers(np.bincount(first, minlength=len(before)))
    after = second[np.argsort(first, kind="stable")]
    return Program(capacity, templates, template, size_bytes, latency_ns, waits, after_ptr, after)


def pointers(counts: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
    """Begin of each row of a compressed table, and the end of the last row."""
    return np.concatenate([[0], np.cumsum(counts)])


def write_answer(end_ns: NDArray[Any], path: Path, remarks: str = "") -> None:
    """Write the end of each flow [ns]."""
    lines = [f"# {line}" for line in remarks.splitlines()]
    path.write_text("\n".join([*lines, *(f"{end:.3f}" for end in end_ns.tolist())]) + "\n")


def read_answer(path: Path) -> NDArray[np.float64]:
    """Read the end of each flow [ns], shape (flows,)."""
    return np.loadtxt(path, comments="#", ndmin=1)


class _Words:
    """Reads the numbers of a flow set in order."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text().splitlines()
        if not lines or lines[0] != TITLE:
            raise ValueError(f"{path} is not a flow set: its first line is not {TITLE!r}")
        self._words = iter(" ".join(line for line in lines if not line.startswith("#")).split())

    def count(self, section: str) -> int:
        """Read the begin of a section, which must be ``section``, and return its length."""
        name = next(self._words)
        if name != section:
            raise ValueError(f"the flow set has {name!r} in place of the section {section!r}")
        return self.number()

    def number(self) -> int:
        return int(next(self._words))

    def row(self) -> list[int]:
        return [self.number() for _ in range(self.number())]

    def decimals(self, count: int) -> NDArray[np.float64]:
        return np.array([next(self._words) for _ in range(count)], float)
