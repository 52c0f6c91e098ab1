"""When the first stage sends the first messages of a step.

Evaluations send activations before those of the step, and records may be lost. So the messages of a
step are counted from its end, in bytes, as many as other steps have. A step of longer sequences has
more, but then more gradients come back as well.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from llmprism.methods.prism.parameters import SMALL
from llmprism.methods.prism.pipelines.micro_batches import OFTEN, usual_size
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.missing import TO_SIGMA

FULLEST = 0.75  # quantile of the bytes of a step that no lost record makes less
NOISE = 4.0  # deviations from the median step that an ordinary step does not reach


def first_two(
    found: dict[str, Floats],
    who: tuple[Codes, Ints],
    step: Codes,
    when: tuple[Floats, Floats],
    size: Ints,
    messages: int,
    more: Floats,
) -> None:
    """When the step's first and second activation left.

    Also, how long after the end of the first one the second one left (``free``).
    ``who`` has connection and endpoint of each record, ``when`` its start and end, and ``more``
    the bytes of :func:`answered_beyond_usual`.
    """
    steps = found["first"].shape[1]
    start, end = when
    order = np.lexsort((start, step, who[0]))
    cell = who[0][order].astype(np.int64) * steps + step[order]
    opens = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0)))
    one_message = usual_size(size)
    single = size < 1.5 * one_message
    passage = float(np.median((end - start)[single])) if single.any() else 0.0
    held = np.add.reduceat(size[order], opens) / one_message
    whole = float(np.median(np.abs(held - np.rint(held)))) <= SMALL  # sequences are of one length
    counted = messages * one_message if whole else 0.0
    most = most_of_a_step(cell, size[order], steps, one_message, counted)
    for begin, stop in zip(opens, np.append(opens[1:], order.size), strict=True):
        rows = order[begin:stop]
        at = int(who[1][rows[0]]), int(step[rows[0]])
        left = np.cumsum(size[rows][::-1])[::-1]
        own = np.flatnonzero(left <= most[int(cell[begin]) // steps] + more[at])
        if not own.size:
            continue
        lead = rows[own[0]]
        found["first"][at] = np.fmin(found["first"][at], start[lead])
        several = round(size[lead] / one_message)
        if several > 1:
            later = start[lead] + max(0.0, end[lead] - passage - start[lead]) / (several - 1)
            found["second"][at] = np.fmin(found["second"][at], later)
            continue
        begins = own[_begin_messages(size[rows[own]], one_message)] if whole else own
        if messages > 1 and begins.size > 1:
            found["second"][at] = np.fmin(found["second"][at], start[rows[begins[1]]])
            free = start[rows[begins[1]]] - end[rows[begins[1] - 1]]
            found["free"][at] = np.fmin(found["free"][at], free)


def answered_beyond_usual(returned: Floats, one_message: float) -> Floats:
    """Bytes of gradients that come back in a step beyond those of most; 0 if about as many do.

    ``returned`` has them by endpoint and step, shape (endpoints, steps); ``one_message`` in bytes.
    """
    usual = np.quantile(returned, FULLEST, axis=1, keepdims=True)
    return np.where(returned > usual + 0.5 * one_message, returned - usual, 0.0)


def _begin_messages(size: Ints, one_message: float) -> Bools:
    """Which records begin a message: others hold the rest of one that an exporter cut."""
    number = np.floor((np.cumsum(size) - size) / one_message + SMALL)
    begins: Bools = np.diff(number, prepend=-1.0) > 0
    return begins


def most_of_a_step(
    cell: Ints, size: Ints, steps: int, one_message: float, counted: float = 0.0
) -> dict[int, float]:
    """Bytes that each connection moves in a step at most, by its number.

    The median step and half a message more; or as much more as steps usually differ, if few have
    the same bytes: those of sampled records are estimates. What goes beyond is not the step's own.
    All connections move the same, so a median that lost records make less is that of the others, or
    what all messages of a step that are ``counted`` have.
    """
    volume = pd.Series(size).groupby(cell).sum()
    by_connection = volume.groupby(volume.index.to_numpy() // steps)
    middle = by_connection.median()
    away = (volume - middle.reindex(volume.index.to_numpy() // steps).to_numpy()).abs()
    noise = TO_SIGMA * away.groupby(away.index.to_numpy() // steps).median()
    noise *= (away <= 0.5 * one_message).mean() < OFTEN
    whole = np.maximum(middle, max(float(np.quantile(middle, FULLEST)), counted))
    most = whole + np.maximum(0.5 * one_message, NOISE * noise)
    return {int(one): float(value) for one, value in most.items()}
