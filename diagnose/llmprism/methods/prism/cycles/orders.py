"""Reductions and gathers that look like steps: they move the same messages in another order.

A step moves its messages in the same order as every other one. With a sharded optimizer, gradients
are reduced from the last layer to the first, and the updated parameters gathered from the first to
the last. If both have as many bytes, they are equal parts with equal messages. But a message that
comes early in one of them comes late in the other. With sharded gradients, several micro-batches
reduce in one order before parameters are gathered in the other one. So the order repeats after as
many parts as a step has.

Where one part of a step has another order than all others, it gathers, and the next step begins
after it. Where two orders take turns, both may be either, and a step begins after the longer rest.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.parts import TOLERANCES
from llmprism.methods.prism.parameters import EQUAL, MOSTLY, SMALL
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import nanmedian
from prism_common.early import INTS

MOST = 7  # parts of a step that are looked at: gathers differ from both neighbours
REPEATS = 2  # steps that show that the order repeats


def ends_of_orders(traffic: Traffic, parts: Division) -> Ints:
    """First record of each step but the first, if the order of messages shows several parts."""
    if parts.evaluated or parts.tolerance > TOLERANCES[0]:
        return INTS
    places = _places(traffic, parts)
    if not places.size or _apart(places, 1) <= SMALL:
        return INTS
    for every in range(2, min(MOST, len(parts) // REPEATS) + 1):
        if _apart(places, every) <= EQUAL:
            begins = parts.firsts[_first_of_step(traffic, parts, places, every) :: every]
            return begins[begins > 0]
    return INTS


def _places(traffic: Traffic, parts: Division) -> Floats:
    """Where messages of each prominent size are in each part, as a share of its bytes.

    Shape (sizes, parts); the mean of all messages of a size, NaN where a part has fewer or more of
    them than usual, since pieces of a message may have the size of others, and in smaller parts, as
    the records may show the first and the last one in part. Most parts have as many of each size:
    records that an exporter joined or cut have others.
    """
    size = traffic.size.astype(np.float64)
    part, until = parts.part_of(len(traffic)), np.cumsum(size)
    before = np.concatenate(([0.0], until))[parts.firsts]
    place = (until - size / 2 - before[part]) / parts.volumes[part]
    distinct, which = np.unique(traffic.size, return_inverse=True)
    moved = np.bincount(which, size)
    cell, cells = which * len(parts) + part, distinct.size * len(parts)
    total, held = (np.bincount(cell, each, cells).reshape(-1, len(parts)) for each in (place, None))
    usual = (held > 0) & (held == np.median(held, axis=1, keepdims=True))
    found = np.where(usual, total / np.maximum(held, 1), np.nan)
    found = found[(moved >= SMALL * moved.sum()) & (usual.mean(axis=1) >= MOSTLY)]
    found[:, parts.volumes < (1 - EQUAL) * np.median(parts.volumes)] = np.nan
    return np.asarray(found)


def _apart(places: Floats, every: int) -> float:
    """How far the places of the size that differs most are from those ``every`` parts later."""
    away = np.abs(places[:, every:] - places[:, :-every])
    known = away[~np.isnan(away).all(axis=1)]
    return float(np.nanquantile(known, MOSTLY, axis=1).max()) if known.size else np.inf


def _first_of_step(traffic: Traffic, parts: Division, places: Floats, every: int) -> int:
    """Number of a part that begins a step, less than ``every``."""
    order = np.stack([nanmedian(places[:, i::every], axis=1) for i in range(every)])
    other = (np.abs(order[:, None] - order[None]) > SMALL).any(axis=2).sum(axis=1) == every - 1
    if every > 2 and other.sum() == 1:
        return (int(np.argmax(other)) + 1) % every
    rest_ns = np.append(0, traffic.rests_ns()[parts.cuts - 1])
    return int(np.argmax([np.median(rest_ns[i or every :: every]) for i in range(every)]))
