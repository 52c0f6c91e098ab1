"""How many messages a pipeline passes on in a step: micro-batches, and chunks of the model.

Messages are counted by volume: bytes of a step in one direction, over the size of a message,
which is the size that most bytes travel in, or that most are multiples of: a record may hold
several messages. Where sizes differ (sequences of different length), records are counted. A single
record holds messages that nobody can count if it is far slower than the network, if it is answered
before its end, or if the exporter never ends a record without a silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.kinds.outstanding import share_together
from llmprism.methods.prism.parameters import MOSTLY, NEARLY, QUARTER, SMALL
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Floats, Ints, order_in_groups
from llmprism.numerics.missing import finite_median

UNCOUNTED = -1  # micro-batches that records do not show
COUPLE = 2  # stages, chunks or messages
MOST_MERGED = 16  # messages of a record that are looked for
SOME, MULTIPLES = 0.05, 0.9  # share of records that are single, and of bytes in multiples of them
SELDOM, SOME_MORE = 0.03, 1.1  # share of steps without a lost record; most over usual messages
MISSED = 0.03  # of the messages of a step: what all steps may lack, if one record in 20 is lost
OFTEN = 0.4  # share of steps with the usual number; some hold an evaluation as well
AT_ONCE = 0.05  # of a message of the pipeline: silence that counts as none
LONGER = 1.8  # ratio of records of two classes that must hold several messages
BIN = 0.02  # width of the bins (in logarithm) in which sizes count as equal


def messages_of_a_step(
    connections: Connections, own: Sequence[KindOf], count: int, closing: Bools
) -> tuple[int, int]:
    """Micro-batches and chunks: what a connection carries in a step, median over steps.

    All messages of a pipeline have one size. If records of some classes are longer than those of
    others, nobody can count what they hold, but volumes still show chunks. Connections that are
    ``closing`` (shape (connections,)) join the last stage to the first one. They carry a chunk
    less, which with many chunks does not divide them from the others of a class.
    """
    numbers, volumes, sizes = [], [], list[float]()
    for one, among in _alike(own, closing):
        known, cell = one.cells(connections, count)
        size = usual_size(one.traffic.size)
        bytes_of = one.traffic.size[known][among[cell // count]]
        cell = cell[among[cell // count]]
        volume = np.bincount(cell, bytes_of, among.size * count)
        records = np.bincount(cell, minlength=among.size * count)
        held = volume[records > 0] / size
        number = float(np.median(held))
        whole = np.abs(held - np.rint(held)) <= SMALL * np.maximum(1.0, held / 20)
        uneven = abs(number - round(number)) > SMALL * max(1.0, number / 20) or number < 0.5
        if uneven or connections.sample_bytes > 0:  # samples have few sizes, whatever is sampled
            held = records[records > 0].astype(np.float64)
            number, size = float(np.median(held)), np.nan
            whole = np.full(held.size, (held == number).mean() >= MOSTLY)
        if (whole & (np.abs(held - number) <= 1)).mean() < OFTEN:
            return UNCOUNTED, 1  # steps have as many messages each, and whole ones; samples do not
        numbers.append(max(1, _without_loss(held, number)))
        volumes.append(float(np.median(volume[records > 0])))
        sizes.append(size)
    most, least = max(numbers), min(numbers)
    if np.nanmax([*sizes, 0.0]) >= LONGER * np.nanmin([*sizes, np.inf]):
        less = 1 - min(volumes) / max(volumes)
        chunks = round(1 / less) if less > SMALL else 1
        return UNCOUNTED, chunks
    if least < most and closing.any() and most % (most - least) == 0:
        chunks = most // (most - least)  # between last and first stage one chunk fewer
        return most // chunks, chunks
    return most, 1


def _alike(own: Sequence[KindOf], closing: Bools) -> Iterator[tuple[KindOf, Bools]]:
    """Each class with those of its connections that join neighbours, and with the closing ones."""
    for one in own:
        closes = closing[one.connections]
        for among in (~closes, closes):
            if among.any():
                yield one, among


def _without_loss(held: Floats, number: float) -> int:
    """Messages of a step, from what steps were ``held`` to have, of which ``number`` is the median.

    If most steps have another number, records were lost: then the most that some have is right,
    unless others have many more.
    """
    counts = np.rint(held)
    above = counts > SOME_MORE * number + 1
    if (counts == round(number)).mean() >= MOSTLY or above.any():
        return round(number)
    values, often = np.unique(counts, return_counts=True)
    return int(values[often >= SELDOM * counts.size].max(initial=round(number)))


def deepest(found: Floats, own: Sequence[KindOf], micro_batches: int) -> int:
    """Most messages outstanding, median; 0 where unknown.

    A record that holds several messages shows all of them at its begin, so that all those of a step
    seem to be outstanding, whatever the schedule.
    """
    deepest = int(np.nan_to_num(finite_median(found)))
    if deepest < micro_batches:
        return deepest
    size = np.concatenate([one.traffic.size for one in own])
    single = size <= (1 + SMALL) * usual_size(size)
    return deepest if size[single].sum() >= MULTIPLES * size.sum() else 0


def are_countable(
    connections: Connections, phases: Phases, own: Sequence[KindOf], messages: int
) -> bool:
    """Whether records show how many messages they hold, where they seem to hold ``messages``."""
    if messages == 1 and (_answered_early(own) or _are_bridged(connections, phases, own)):
        return False
    return not (_are_merged(own, messages) and _are_slow(phases, own))


def _answered_early(own: Sequence[KindOf]) -> bool:
    """Whether what comes back begins before what is sent has ended.

    The gradient of a single message cannot: it needs all of its activation. So a record that is
    answered before its end holds several messages.
    """
    lengths = np.concatenate([one.traffic.end_ns - one.traffic.start_ns for one in own])
    if not np.median(lengths) > 0:
        return False  # the clock is too coarse
    return float(np.median([share_together(one.traffic) for one in own])) >= QUARTER


def _are_bridged(connections: Connections, phases: Phases, own: Sequence[KindOf]) -> bool:
    """Whether no record follows another at once: then messages that do are in one record.

    Buckets of gradients follow each other at once, as far as their network is busy.
    """
    lengths = np.concatenate([one.traffic.end_ns - one.traffic.start_ns for one in own])
    silences = [_silences(connections, one) for one in phases.classes]
    silence_ns = np.concatenate(silences)
    at_once = silence_ns <= AT_ONCE * np.median(lengths)
    return bool(silence_ns.size and not at_once.any())


def _silences(connections: Connections, one: KindOf) -> Ints:
    """Time [ns] from each record to the next one of its connection."""
    traffic = one.traffic
    who = connections.of_row[traffic.row]
    order = order_in_groups(who, traffic.start_ns)
    silence_ns = traffic.start_ns[order][1:] - traffic.end_ns[order][:-1]
    own: Ints = silence_ns[np.diff(who[order]) == 0]
    return own


def _are_slow(phases: Phases, own: Sequence[KindOf]) -> bool:
    """Whether single messages of ``own`` are far slower than the records of the gradients."""
    others = [one for one in phases.classes if one.kind == "dp"]
    size = np.concatenate([one.traffic.size for one in own])
    return bool(others) and _rate(own, (1 + SMALL) * usual_size(size)) < QUARTER * _rate(others)


def _are_merged(own: Sequence[KindOf], messages: int) -> bool:
    """Whether a record may hold several messages: all of a step, or as some records show."""
    size = np.concatenate([one.traffic.size for one in own])
    single = size <= (1 + SMALL) * usual_size(size)
    return messages == 1 or size[single].sum() < MULTIPLES * size.sum()


def _rate(own: Sequence[KindOf], most_bytes: float = np.inf) -> float:
    """Median bytes in a nanosecond of a record of no more than ``most_bytes``."""
    traffic = [one.traffic for one in own]
    size = np.concatenate([one.size for one in traffic])
    length = np.concatenate([one.end_ns - one.start_ns for one in traffic])
    return float(np.median((size / np.maximum(length, 1))[size <= most_bytes]))


def are_whole(size: Ints, one_message: float) -> bool:
    """Whether nearly all records hold whole messages; those of sampled records are estimates."""
    held = size / one_message
    return bool((np.abs(held - np.rint(held)) <= SMALL).mean() > NEARLY)


def usual_size(size: Ints) -> float:
    """Size of a message: that in which most bytes travel, or of which they are multiples."""
    of, value = pd.factorize(size)
    records = np.bincount(of, minlength=value.size)
    usual = _most_common(value, records)
    for parts in range(COUPLE, MOST_MERGED + 1):
        one = usual / parts
        near = np.abs(value - one) <= BIN * one
        if records[near].sum() / size.size < SOME:
            continue
        held = value / one
        whole = np.abs(held - np.rint(held)) <= BIN * np.maximum(held, 1)
        whole &= held > 1 / COUPLE
        if (records * value)[whole].sum() >= MULTIPLES * size.sum():
            return float(np.median(np.repeat(value[near], records[near])))
    return usual


def _most_common(size: Ints, records: Ints) -> float:
    """The size in which most bytes travel, of so many ``records`` of each size."""
    bins = np.rint(np.log(np.maximum(size, 1)) / BIN).astype(np.int64)
    weight = np.bincount(bins, size * records)
    near = np.abs(bins - int(np.argmax(weight))) <= 1
    return float(np.median(np.repeat(size[near], records[near])))


def divided(messages: int, chunks: int) -> tuple[int, int]:
    """Micro-batches and chunks of two stages, from the messages of a step in one direction.

    Between them pass activations of all chunks but the last, or gradients of all but the first.
    ``chunks`` is 0 where there may be several. A group of micro-batches is then as large as the
    pipeline is long; if no number of chunks fits, there is one. Else the result is 0 chunks. Some
    of many messages may be lost in every step.

    >>> divided(7, 1), divided(8, 0), divided(18, 0), divided(18, 2)
    ((7, 1), (8, 1), (-1, 0), (6, 2))
    >>> divided(69, 0), divided(69, 4)  # 70 of them
    ((-1, 0), (10, 4))
    """
    if chunks == 1:
        return messages, 1
    few = range(COUPLE, messages) if chunks == 0 else (chunks,)
    groups = [COUPLE * (2 * one - 1) for one in few]
    whole = [-(-messages // group) * group for group in groups]  # the next multiple of a group
    fits = any(one <= messages * (1 + MISSED) for one in whole)
    if chunks == 0:
        return (UNCOUNTED, 0) if fits else (messages, 1)
    return (whole[0] // (2 * chunks - 1), chunks) if fits else (UNCOUNTED, 0)
