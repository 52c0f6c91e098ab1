"""The course of a job: sizes of its layout, ends of iterations, saves and evaluations.

Sizes are those of arguments and configurations (``catalogue/layouts.toml`` has their names). A size
that is named with two values is unknown. Ranks wait while one saves or evaluates. Such a pause
lies between the lines of two iterations, and between its own lines if they have times.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from math import prod
from typing import Any

from llmlog.catalogue import LAYOUTS
from llmlog.clocks import since_1970_ns
from llmlog.progress import Iteration, Mark, Progress

_AXES = {name: axis for axis, names in LAYOUTS.items() for name in names}
_SIZE = re.compile(
    rf"(?<![\w-])(?:--)?({'|'.join(_AXES).replace('_', '[-_ ]')})[\"']?[ .:=]+[\"']?(\d{{1,7}})\b"
)
_MESH = re.compile(r"device mesh with \[([\w', ]+)\], \[([\d, ]+)\]")  # of torchtitan
_DIVIDED = ("dp_replicate", "dp_shard", "dp")


def read_sizes(text: str, sizes: dict[str, set[int]]) -> bool:
    """Note the sizes in a line, by axis; return whether it has some.

    >>> found = {}
    >>> read_sizes("python train.py --tensor-model-parallel-size 8 --bf16", found), found
    (True, {'tp': {8}})
    """
    if "parallel" not in text and "device mesh" not in text:
        return False
    named = [(_AXES[re.sub("[- ]", "_", name)], int(size)) for name, size in _SIZE.findall(text)]
    if mesh := _MESH.search(text):
        dims = dict(zip(re.findall(r"\w+", mesh[1]), map(int, mesh[2].split(",")), strict=False))
        named += [(axis, dims[axis]) for axis in ("pp", "tp", "cp") if axis in dims]
        named.append(("dp", prod(dims.get(name, 1) for name in _DIVIDED)))
    for axis, size in named:
        sizes.setdefault(axis, set()).add(size)
    return bool(named)


def layout_of(sizes: dict[str, set[int]]) -> dict[str, int]:
    """The number of places along each known axis: replicas are divided by groups of experts."""
    known = {axis: min(every) for axis, every in sizes.items() if len(every) == 1 and min(every)}
    if "dp" in known and known["dp"] % known.get("ep", 1) == 0:
        return known | {"dp": known["dp"] // known.get("ep", 1)}
    return {axis: size for axis, size in known.items() if axis != "dp"}


def course_of(progress: Progress) -> Iterator[dict[str, Any]]:
    """A row for each iteration, save and evaluation whose times are known."""
    by_file: dict[str, list[Iteration]] = defaultdict(list)
    for iteration in progress.iterations:
        by_file[iteration.file].append(iteration)
        if end_ns := since_1970_ns(iteration.time):
            yield _row("iteration", iteration.number, end_ns - _length_ns(iteration), end_ns)

    def between(mark: Mark) -> tuple[str, str, int]:
        place = bisect(by_file[mark.file], mark.line, key=lambda iteration: iteration.line)
        return mark.file, mark.what, place

    for (file, what, place), lines in groupby(sorted(progress.pauses, key=between), key=between):
        times = {mark.is_end: time_ns for mark in lines if (time_ns := since_1970_ns(mark.time))}
        number = -1
        for iteration in by_file[file][max(place - 1, 0) : place]:
            number = iteration.number
            times.setdefault(False, since_1970_ns(iteration.time) or 0)
        for iteration in by_file[file][place : place + 1]:
            times.setdefault(True, (since_1970_ns(iteration.time) or 0) - _length_ns(iteration))
        if 0 < times.get(False, 0) < times.get(True, 0):
            yield _row(what, number, times[False], times[True])


def _length_ns(iteration: Iteration) -> int:
    return round((iteration.seconds or 0.0) * 1e9)


def _row(what: str, number: int, start_ns: int, end_ns: int) -> dict[str, Any]:
    return {"what": what, "number": number, "start_ns": start_ns, "end_ns": end_ns}
