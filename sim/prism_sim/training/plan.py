"""The plan of a stage: the passes of a step, in order, with everything that is known in advance.

All workers of a stage share it. Passes that only compute, receive and send are *pieces* that
compiled code follows; those with a program of their own are left to the worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from prism_sim.cluster.sequences import PIECE
from prism_sim.cluster.state import Array
from prism_sim.training.data_parallel import Pass
from prism_sim.training.messages import MESSAGE_SPANS
from prism_sim.training.schedules import PASS_SPANS, Work
from prism_sim.truth import SpanLog


class Receiver(NamedTuple):
    """The receiver of a pass's result: the link to it, and its mailbox."""

    link: int
    mailbox: int


class PlannedPass(NamedTuple):
    """One pass of a step.

    ``duration`` is its place among the durations of the step, ``mailbox`` that of the message it
    waits for (-1: none), ``program`` the number of its program, ``receiver`` who needs its result.
    A pass that runs beside the next one has the program of both.
    """

    work: Work
    duration: int
    mailbox: int
    program: int
    receiver: Receiver | None


class Part(NamedTuple):
    """A part of a plan: the passes from ``first`` to before ``stop``.

    If it is ``plain``, they only compute. Otherwise it is one pass, or two beside each other.
    """

    first: int
    stop: int
    plain: bool


@dataclass(frozen=True)
class StagePlan:
    """The plan of a stage.

    Attributes
    ----------
    passes : of a step, in order.
    pieces : the first of them as pieces of a sequence.
    kinds : the passes of each program; two if they run beside each other.
    links : the stage at the end of each link.
    parts : by which programs only compute.
    """

    passes: Sequence[PlannedPass]
    pieces: int
    kinds: Sequence[tuple[Pass, ...]]
    links: Sequence[int]
    parts: dict[tuple[bool, ...], list[Part]] = field(default_factory=dict)


def parts_of(plan: Sequence[PlannedPass], plain: Sequence[bool], *, apart: bool) -> list[Part]:
    """The parts of ``plan``; ``plain`` tells which programs only compute.

    ``apart`` is whether every pass is a part of its own.
    """
    parts: list[Part] = []

    def is_plain(i: int) -> bool:
        return plain[plan[i].program] and not plan[i].work.beside

    first = 0
    while first < len(plan):
        stop = first + 1 + plan[first].work.beside
        only_computes = is_plain(first) and not apart
        while only_computes and stop < len(plan) and is_plain(stop):
            stop += 1
        parts.append(Part(first, stop, only_computes))
        first = stop
    return parts


def pieces_of(plan: Sequence[PlannedPass], log: SpanLog) -> Array:
    """The passes of ``plan`` as pieces of a sequence."""
    pieces = np.zeros(len(plan), PIECE)
    spans = [log.kind(PASS_SPANS[item.work.kind]) for item in plan]
    pieces["duration"] = [item.duration for item in plan]
    pieces["awaits"] = [item.mailbox for item in plan]
    pieces["micro_batch"] = [item.work.micro_batch for item in plan]
    pieces["span"] = spans
    pieces["mailbox"] = pieces["sent"] = pieces["received"] = -1
    for i, item in enumerate(plan):
        if item.receiver is not None:
            kinds = [log.kind(name) for name in MESSAGE_SPANS[item.work.direction]]
            pieces["queue"][i], pieces["mailbox"][i] = item.receiver
            pieces["sent"][i], pieces["received"][i] = kinds
    return pieces
