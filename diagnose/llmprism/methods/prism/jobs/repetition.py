"""Which connections of a component repeat with its steps, and which are answered.

Training moves as much in every step, and what a stage sends forth comes back as gradients. Storage,
logs and bulk copies do neither. Gradients that move once or twice in a recording are no exception:
they show that the parts that repeat are no steps, but micro-batches.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.parameters import EQUAL, FEWEST, MOSTLY
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.records.sampled import allowed, deviation
from llmprism.methods.prism.segment.stepping import Stepping
from llmprism.numerics.arrays import Bools, Floats, Ints

UNLIKE = 0.5  # volumes of training traffic in a step differ by less than this from the median
EVALUATED = 4.0  # ratio of activations to gradients up to which evaluations explain the rest
MANY, APART = 40, 0.1  # steps, and share of them by which two times are apart
GRADIENTS = 0.02  # of the bytes of a job: what gradients have at least


def returned(connections: Connections, minor: Ints) -> Bools:
    """Which ``minor`` connections are answered by another one: as many bytes, or the same messages.

    A gradient has the size of its activation, and evaluations bring none.
    """
    of_pair: dict[tuple[int, int], list[int]] = {}
    pairs = [*zip(connections.src[minor].tolist(), connections.dst[minor].tolist(), strict=True)]
    for pair, one in zip(pairs, minor.tolist(), strict=True):
        of_pair.setdefault(pair, []).append(one)
    total = connections.total_bytes
    apart = allowed(EQUAL, total[minor], connections.sample_bytes) * total[minor]
    found = [
        any(
            abs(total[back] - total[one]) <= far or _has_sizes_of(connections, one, back)
            for back in of_pair.get((dst, src), [])
        )
        for (src, dst), one, far in zip(pairs, minor.tolist(), apart.tolist(), strict=True)
    ]
    return np.array(found, np.bool_)


def _has_sizes_of(connections: Connections, one: int, other: int) -> bool:
    """Whether most bytes of the connection that moves less are in messages of the other's sizes."""
    sizes = [connections.size[connections.by.rows(each)] for each in (one, other)]
    less, more = sorted(sizes, key=np.sum)
    same = less[np.isin(less, more)].sum() >= MOSTLY * less.sum()
    return bool(same and more.sum() <= EVALUATED * less.sum())


def exchanged(connections: Connections) -> Bools:
    """Connections that are answered by a minor one, with not much less.

    An evaluation sends activations that bring no gradients, so only the gradients may be minor.
    """
    answers = np.flatnonzero(connections.carries & connections.minor)
    return answered(connections, np.arange(len(connections)), answers)


def answered(connections: Connections, among: Ints, answers: Ints) -> Bools:
    """Which of the connections ``among`` some of the ``answers`` answer, with not much less."""
    of_pair: dict[tuple[int, int], int] = {}
    for one in answers.tolist():
        pair = int(connections.dst[one]), int(connections.src[one])
        of_pair[pair] = max(of_pair.get(pair, 0), int(connections.total_bytes[one]))
    pairs = zip(connections.src[among].tolist(), connections.dst[among].tolist(), strict=True)
    answer = np.array([of_pair.get(pair, 0) for pair in pairs], np.int64)
    sent = connections.total_bytes[among]
    return np.asarray((answer > 0) & (sent >= MOSTLY * answer) & (sent <= EVALUATED * answer))


def repeats(
    start_ns: Ints, size: Ints, stepping: Stepping, share: float, per_sample: float
) -> bool:
    """Whether as many bytes move between any two ends of steps, or begins, or silences.

    What begins at the end of a step moves now before it, now after it. What moves in a step may
    differ from the median step by a ``share`` of it, or by the error of samples.
    """
    ends, begins = stepping.end_ns, stepping.start_ns
    between = (ends[:-1] + begins[1:]) // 2
    return any(
        _is_steady(start_ns, size, borders, (share, per_sample))
        for borders in (ends, begins, between)
    )


def _is_steady(start_ns: Ints, size: Ints, borders: Ints, limits: tuple[float, float]) -> bool:
    """Whether about as many bytes move between any two of the ``borders`` [ns].

    ``limits`` are the share by which they may differ, and what one sample stands for [bytes].
    """
    if borders.size < 2:
        return False
    place = np.searchsorted(borders, start_ns)
    inside = (place > 0) & (place < borders.size)
    volume = np.bincount(place[inside] - 1, size[inside], borders.size - 1)
    median = float(np.median(volume))
    most = max(limits[0] * median, float(deviation(median, limits[1])))
    return median > 0 and float(np.median(np.abs(volume - median))) <= most


def irregular(connections: Connections, component: Component, stepping: Stepping) -> Ints:
    """Connections that are idle in most steps, or move a different volume in each."""
    odd = []
    for one, step in zip(component.classes, stepping.step_of, strict=True):
        if stepping.count == 0:
            continue
        volume = one.volumes(connections, step, stepping.count)
        median = np.median(volume, axis=1)
        away = np.median(np.abs(volume - median[:, None]), axis=1)
        most = np.maximum(UNLIKE * median, deviation(median, connections.sample_bytes))
        unlike = (away > most) & (stepping.quality > 0)
        odd.append(one.connections[(median == 0) | unlike])
    return np.concatenate(odd) if odd else np.empty(0, np.int64)


def are_gradients(
    connections: Connections, component: Component, stepping: Stepping, odd: Ints
) -> bool:
    """Whether the ``odd`` connections show that the steps found are only micro-batches.

    Once or twice, all endpoints sent and got something on them. The records hold the end of a step
    or two, and a step is longer than what repeats. Gradients are little beside the activations of
    tensor parallelism. A trainer that broadcasts its parameters at the begin sends them one way.
    """
    if odd.size == 0:
        return False
    total = connections.total_bytes
    every = np.concatenate([one.connections for one in component.classes])
    both = np.intersect1d(connections.src[odd], connections.dst[odd])
    if total[odd].sum() < GRADIENTS * total[every].sum() or both.size < component.endpoints.size:
        return False
    times = [
        _times_active(own)
        for one, step in zip(component.classes, stepping.step_of, strict=True)
        for own in one.volumes(connections, step, stepping.count)[np.isin(one.connections, odd)]
    ]
    return bool(np.median(times) < FEWEST)


def _times_active(volume: Floats) -> int:
    """How often a connection moves something, with the ``volume`` of each step; 0 for never.

    Exchanges of single layers may be taken for steps, so that gradients move in several of them.
    """
    active = np.flatnonzero(volume)
    apart = (
        np.diff(active) > max(1, APART * volume.size) if volume.size >= MANY else np.diff(active)
    )
    return int(np.count_nonzero(apart)) + int(active.size > 0)
