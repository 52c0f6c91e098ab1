"""When passes of a pipeline begin and end, and how long those of its first stage take.

Activations leave a stage when a forward pass ends, and gradients when a backward pass does. So the
messages of a step show how far apart passes are, and how many wait for their gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.first_messages import answered_beyond_usual, first_two
from llmprism.methods.prism.pipelines.micro_batches import AT_ONCE, usual_size
from llmprism.methods.prism.pipelines.middle_stages import BACKWARD
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Floats, Ints, order_in_groups
from llmprism.numerics.missing import finite_median

_NAMES = ("first", "second", "free", "answered", "last_sent", "last_got", "turn", "deepest",
          "bytes")  # fmt: skip


def passes_of_steps(
    flows: FlowTable,
    connections: Connections,
    phases: Phases,
    own: Sequence[KindOf],
    stage: Ints,
    messages: int,
    origin: int,
) -> dict[str, Floats]:
    """Moments of each endpoint and step that show when passes began and ended.

    What the first stage sends is counted from the end of the step: forward passes of an
    evaluation, which bring no gradients, come before the step's own.
    """
    place = np.full(len(flows.addresses), -1)
    place[phases.endpoints] = np.arange(phases.endpoints.size)
    shape = (phases.endpoints.size, phases.count)
    found = {name: np.full(shape, np.nan) for name in _NAMES}
    for one in own:
        known = one.step >= 0
        rows, step = one.traffic.row[known], one.step[known]
        size = one.traffic.size[known]
        src, dst = place[flows.src[rows]], place[flows.dst[rows]]
        start = (flows.start_ns[rows] - origin).astype(np.float64)
        end = (flows.end_ns[rows] - origin).astype(np.float64)
        back = stage[dst] == stage[src] - 1
        _latest(found["last_sent"], src[back], step[back], start[back])
        _latest(found["last_got"], dst[back], step[back], end[back])
        np.fmin.at(found["answered"].ravel(), dst[back] * phases.count + step[back], start[back])
        out = (stage[src] == 0) & (stage[dst] == 1)
        if out.any():
            got = back & (stage[dst] == 0)
            _turns(
                found["turn"], (src[out], step[out], start[out]), (dst[got], step[got], end[got])
            )
            sent, taken = np.flatnonzero(out), np.flatnonzero(got)
            cell = src[out] * phases.count + step[out]
            moved = np.bincount(cell, size[out], found["bytes"].size).reshape(shape)
            found["bytes"] = np.nan_to_num(found["bytes"]) + moved
            _depths(
                found["deepest"],
                (src[sent], step[sent], start[sent], size[sent]),
                (dst[taken], step[taken], end[taken], size[taken]),
                messages,
            )
            who = (connections.of_row[rows[out]], src[out])
            when = (start[out], end[out])
            cell = dst[got] * phases.count + step[got]
            returned = np.bincount(cell, size[got], found["bytes"].size).reshape(shape)
            found["deepest"][(moved > 0) & (returned == 0)] = np.nan  # answers that nobody sees
            more = answered_beyond_usual(returned.astype(np.float64), usual_size(size[out]))
            first_two(found, who, step[out], when, size[out], messages, more)
    return found


def forward_of_first_ns(passes: Mapping[str, Floats], middle_ns: float) -> float:
    """Median time of a forward pass of the first stage.

    It lies between the first two activations, unless the second one had to wait until the first one
    was sent: then the pass was shorter. The first stage is taken to be as fast as a middle one, or
    else to take twice as long backward, as far as one pass of each lies between the arrival of a
    gradient and the next activation.
    """
    between = finite_median(passes["second"] - passes["first"])
    free = finite_median(passes["free"])
    if not between > 0 or not free < AT_ONCE * between:
        return between
    turn = finite_median(passes["turn"]) / (1 + BACKWARD)
    shorter = middle_ns if middle_ns > 0 else turn
    return min(between, shorter) if shorter > 0 else between


def lead_from_answers_ns(answered: Floats, beyond: int) -> float:
    """Estimate a forward pass [ns] from the time until the first answer, where no second shows.

    A record that holds several messages still shows when the first one left, and that of what comes
    back, when the first gradient did. In between lie a forward pass of each of the stages
    ``beyond`` the first, and a backward pass, which takes twice as long.
    """
    first = finite_median(answered)
    return first / (beyond * (1 + BACKWARD)) if first > 0 and beyond else float("nan")


def _depths(
    into: Floats,
    sent: tuple[Ints, Codes, Floats, Ints],
    got: tuple[Ints, Codes, Floats, Ints],
    messages: int,
) -> None:
    """Most activations that wait for their gradients, in each step of a first-stage endpoint."""
    who, step = np.concatenate((sent[0], got[0])), np.concatenate((sent[1], got[1]))
    when = np.concatenate((sent[2], got[2]))
    size = np.concatenate((sent[3], -got[3])).astype(np.float64)
    cell = who * into.shape[1] + step
    order = order_in_groups(cell, when)
    cell, moved = cell[order], np.cumsum(size[order])
    opens = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0)))
    before = np.repeat(moved[opens] - size[order][opens], np.diff(np.append(opens, cell.size)))
    deepest = np.maximum.reduceat(moved - before, opens)
    volume = np.bincount(sent[0] * into.shape[1] + sent[1], sent[3], into.size)[cell[opens]]
    with np.errstate(all="ignore"):
        into.ravel()[cell[opens]] = np.rint(deepest / volume * messages)


def _turns(into: Floats, sent: tuple[Ints, Codes, Floats], got: tuple[Ints, Codes, Floats]) -> None:
    """Median time from a gradient's arrival in the first stage to the next activation it sends.

    With one backward and one forward pass in turn, that is how long both take.
    """
    steps = into.shape[1]
    far = 1.0 + max(float(sent[2].max()), float(got[2].max(initial=0.0)))
    lane_sent = (sent[0] * steps + sent[1]) * far
    order = np.argsort(lane_sent + sent[2], kind="stable")
    times = (lane_sent + sent[2])[order]
    lane_got = (got[0] * steps + got[1]) * far
    at = np.searchsorted(times, lane_got + got[2], side="left")
    inside = at < times.size
    waits = times[np.minimum(at, times.size - 1)] - (lane_got + got[2])
    inside &= waits < far / 2
    cell = (got[0] * steps + got[1])[inside]
    if cell.size:
        middle = pd.Series(waits[inside]).groupby(cell).median()
        into.ravel()[middle.index.to_numpy()] = middle.to_numpy()


def _latest(into: Floats, who: Ints, step: Codes, when: Floats) -> None:
    np.fmax.at(into.ravel(), who * into.shape[1] + step, when)
