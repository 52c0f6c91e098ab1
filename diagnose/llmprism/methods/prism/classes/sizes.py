"""Sizes of messages: repeated ones show gathers of parameters; activations have one size or two.

Gradients in single precision have twice the bytes of parameters in half precision. So for each
gathered size there is a reduced one of its double: half as often where parameters are sharded,
because they are gathered in the forward pass and again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.parameters import FEWEST, MOSTLY, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

EXACT = 1e-5  # of a message: what headers add to one of two sizes, one twice the other
LOOKED_AT = 4  # connections of a class, and steps, that are looked at
SELDOM = 0.5  # times a step: sizes that are fewer may be parts of messages
SEVERAL = 4  # sizes of gradients and parameters: those of two layers at least
MANY = 64  # messages that show it where some are lost
ONE_SIZE, WIDTH = 0.9, 0.02  # share of bytes in messages of one size, which may differ by this
MOST_REDUCES = 64  # micro-batches

Cell = tuple[Ints, Ints, Ints]


def gathers_shards(connections: Connections, one: TrafficClass, step: Codes, count: int) -> bool:
    """Whether most of some connections and steps gather each size, and reduce its double.

    Sharded parameters are gathered twice for each reduction, and the last message of a step is
    reduced: there is a message of half its size. Where records are lost, all of the connections and
    steps together show how often each size is sent. Other shards are gathered once in a step. Keys
    and values of context parallelism have doubles, too, but come in one size.
    """
    own = [(end, size) for _, end, size in cells(connections, one, step, count)]
    if not own or sum(_are_shards(*each) for each in own) >= MOSTLY * len(own):
        return bool(own)
    ends = sum(_ends_with_double(*each) for each in own)
    return ends >= MOSTLY * len(own) and _halved_in_all([size for _, size in own])


def _halved_in_all(sizes: list[Ints]) -> bool:
    """Whether half as many messages of a double belong to nearly each size of all ``sizes``."""
    value, often = distinct(np.sort(np.concatenate(sizes)))
    usual = often >= SELDOM * len(sizes)
    value, often = value[usual], often[usual]
    double = np.array(_doubles(value), np.int64)
    gathered = np.flatnonzero(double >= 0)
    reduced = double[gathered]
    if often.sum() < MANY or np.isin(reduced, gathered).any():
        return False
    halves = np.abs(2 * often[reduced] - often[gathered]) <= SMALL * often[gathered]
    known = np.concatenate((gathered[halves], reduced[halves]))
    return bool((value * often)[known].sum() >= ONE_SIZE * sum(size.sum() for size in sizes))


def _are_shards(end_ns: Ints, size: Ints) -> bool:
    """Whether a connection moves shards in a step, in messages of some sizes [bytes]."""
    value, often = distinct(np.sort(size))
    ratios = fitting(value, often)
    if ratios == [1 / 2]:
        return _ends_with_double(end_ns, size)
    return len(ratios) == 1 and value.size >= SEVERAL


def _ends_with_double(end_ns: Ints, size: Ints) -> bool:
    half = size[np.argmax(end_ns)] / 2
    return bool((np.abs(size - half) <= EXACT * half).any())


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
