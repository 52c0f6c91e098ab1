"""The course of a job: sizes of its layout, ends of iterations, saves and evaluations.

Sizes are those of arguments and configurations (``catalogue/layouts.toml`` has their names). A size
that is printed with two values is unknown. Ranks wait while one saves or evaluates. Such a pause
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
    found = [(_AXES[re.sub("[- ]", "_", name)], int(size)) for name, size in _SIZE.findall(text)]
    if mesh := _MESH.search(text):
        own = dict(zip(re.findall(r"\w+", mesh[1]), map(int, mesh[2].split(",")), strict=False))
        found += [(axis, own[axis]) for axis in ("pp", "tp", "cp") if axis in own]
        found.append(("dp", prod(own.get(name, 1) for name in _DIVIDED)))
    for axis, size in found:
        sizes.setdefault(axis, set()).add(size)
    return bool(found)


def layout_of(sizes: dict[str, set[int]]) -> dict[str, int]:
    """The number of places along each known axis: replicas are divided by groups of experts."""
    known = {axis: min(own) for axis, own in sizes.items() if len(own) == 1 and min(own) > 0}
    if "dp" in known and known["dp"] % known.get("ep", 1) == 0:
        return known | {"dp": known["dp"] // known.get("ep", 1)}
    return {axis: size for axis, size in known.items() if axis != "dp"}


def course_of(progress: Progress) -> Iterator[dict[str, Any]]:
    """A row for each iteration, save and evaluation whose times are known."""
    by_file: dict[str, list[Iteration]] = defaultdict(list)
    for one in progress.iterations:
        by_file[one.file].append(one)
        if end_ns := since_1970_ns(one.time):
            yield _row("iteration", one.number, end_ns - _length_ns(one), end_ns)

    def between(mark: Mark) -> tuple[str, str, int]:
        place = bisect(by_file[mark.file], mark.line, key=lambda one: one.line)
        return mark.file, mark.what, place

    for (file, what, place), lines in groupby(sorted(progress.pauses, key=between), key=between):
        times = {one.is_end: at for one in lines if (at := since_1970_ns(one.time))}
        number = -1
        for one in by_file[file][max(place - 1, 0) : place]:
            number = one.number
            times.setdefault(False, since_1970_ns(one.time) or 0)
        for one in by_file[file][place : place + 1]:
            times.setdefault(True, (since_1970_ns(one.time) or 0) - _length_ns(one))
        if 0 < times.get(False, 0) < times.get(True, 0):
            yield _row(what, number, times[False], times[True])


def _length_ns(one: Iteration) -> int:
    return round((one.seconds or 0.0) * 1e9)


def _row(what: str, number: int, start_ns: int, end_ns: int) -> dict[str, Any]:
    return {"what": what, "number": number, "start_ns": start_ns, "end_ns": end_ns}
