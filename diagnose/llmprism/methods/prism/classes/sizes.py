"""Sizes of messages: repeated ones show gathers of parameters; activations have one size or two.

Gradients in single precision have twice the bytes of parameters in half precision. So for each
gathered size there is a reduced one of its double: half as often where parameters are sharded,
because they are gathered in the forward pass and again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.parameters import FEWEST, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

EXACT = 1e-5  # of a message: what headers add to one of two sizes, one twice the other
LOOKED_AT = 4  # connections of a class, and steps, that are looked at
SELDOM = 0.5  # times a step: sizes that are fewer may be parts of messages

ONE_SIZE, WIDTH = 0.9, 0.02  # share of bytes in messages of one size, which may differ by this
MOST_REDUCES = 64  # micro-batches

Cell = tuple[Ints, Ints, Ints]


def cells(connections: Connections, one: TrafficClass, step: Codes, count: int) -> Iterator[Cell]:
    """Start, end and size of what some connections move in some steps in the middle.

    A message that was cut where its sender had to wait for a neighbour is whole again.
    """
    of_row = connections.of_row[one.traffic.row]
    value, often = distinct(np.sort(one.traffic.size))
    usual = value[often >= SELDOM * one.connections.size * count]
    steps = range(count // 3, min(count - 1, count // 3 + LOOKED_AT))
    for connection in one.connections[:LOOKED_AT].tolist():
        mine = np.flatnonzero(of_row == connection)
        for at in steps:
            rows = mine[step[mine] == at]
            if rows.size:
                cell = one.traffic.start_ns[rows], one.traffic.end_ns[rows], one.traffic.size[rows]
                yield _uncut(cell, usual)


def _uncut(cell: Cell, usual: Floats) -> Cell:
    """``cell`` with each two records as one that follow each other and have a usual size together.

    Neither of the two has one: they are in few steps.
    """
    start, end, size = cell
    rare = ~_are_of(size, usual)
    first = rare[:-1] & rare[1:] & _are_of(size[:-1] + size[1:], usual)
    first[1:] &= ~first[:-1]
    if not first.any():
        return cell
    second = np.append(False, first)
    whole = size + np.append(np.where(first, size[1:], 0), 0)
    ended = np.maximum(end, np.append(np.where(first, end[1:], 0), 0))
    return start[~second], ended[~second], whole[~second]


def _are_of(size: Ints, usual: Floats) -> Bools:
    """Which sizes are among the ``usual`` ones, in ascending order."""
    if not usual.size:
        return np.zeros(size.size, np.bool_)
    at = np.searchsorted(usual, size * (1 - EXACT))
    found: Bools = usual[np.minimum(at, usual.size - 1)] <= size * (1 + EXACT)
    return found & (at < usual.size)


def fitting(value: Floats, often: Ints) -> list[float]:
    """How many times as often as each size its double is sent, if that holds for all of them."""
    if often.sum() < FEWEST:
        return []
    double, times = _doubles(value), often.tolist()
    return [ratio for ratio in (1 / 2, *range(1, MOST_REDUCES + 1)) if _fits(times, double, ratio)]


def distinct(size: Ints) -> tuple[Floats, Ints]:
    """Distinct sizes, ascending, and how often each occurs."""
    opens = np.flatnonzero(np.diff(size, prepend=-np.inf) > EXACT * size)
    return size[opens].astype(np.float64), np.diff(np.append(opens, size.size))


def _doubles(value: Floats) -> list[int]:
    """Where the double of each size is among the sizes, -1 if nowhere or at several places."""
    low, high = (np.searchsorted(value, 2 * value * edge) for edge in (1 - EXACT, 1 + EXACT))
    places: list[int] = np.where(high - low == 1, low, -1).tolist()
    return places


def _fits(often: list[int], double: list[int], ratio: float) -> bool:
    """Whether there are ``ratio`` times as many messages of the double of each gathered size."""
    left = list(often)
    for i, at in enumerate(double):
        if left[i] == 0:
            continue
        reduced = ratio * left[i]
        if at < 0 or reduced % 1 or left[at] < reduced:
            return False
        left[at] -= int(reduced)
        left[i] = 0
    return True


def is_activations(size: Ints) -> bool:
    """Whether most bytes travel in messages of one size, or as many of its double.

    Parameters come in more sizes: those of layers, embeddings and rests. Context parallelism
    sends keys and values forth, and twice as much with their gradients.
    """
    one, half = _usual_and_half(size)
    return one >= ONE_SIZE or (one + half >= ONE_SIZE and abs(one - 2 * half) <= SMALL)


def is_of_one_size(size: Ints) -> bool:
    """Whether most bytes travel in messages of one size."""
    return _usual_and_half(size)[0] >= ONE_SIZE


def _usual_and_half(size: Ints) -> tuple[float, float]:
    """Share of bytes in messages of the usual size, and in those of half of it."""
    total = max(float(size.sum()), 1.0)

    def around(middle: float) -> float:
        return float(size[np.abs(size - middle) <= WIDTH * middle].sum()) / total

    order = np.sort(size)
    moved = np.cumsum(order, dtype=np.float64)
    usual = float(order[np.searchsorted(moved, total / 2)])
    return around(usual), around(usual / 2)
