"""The program of a pass: computation and collectives, in order.

A pass of a micro-batch is a short *program*. Gathers of sharded parameters, gradient buckets,
all-to-alls of experts and rings of keys and values all use the same three instructions: compute
up to a fraction of the pass, join a collective, and wait for one. A collective blocks if the wait
follows at once; it is overlapped if the wait
comes later. A fourth instruction changes the load of a rank relative to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import simpy


class Communicator(Protocol):
    """A worker's access to the collectives of its group.

    Attributes
    ----------
    last : end of the most recent collective; None before the first.
    """

    last: simpy.Event | None

    def join(
        self, operation: str, size_bytes: int, step: int, micro_batch: int, layer: int = -1
    ) -> simpy.Event:
        """Join the group's next collective, ``size_bytes`` per rank; the event fires at its end."""


@dataclass(frozen=True)
class Compute:
    """Compute until ``until`` of the pass's compute time has passed."""

    until: Fraction


@dataclass(frozen=True)
class Join:
    """Join a collective of the communicator's group, of ``size_bytes`` per rank, without waiting.

    ``slot`` names it for a later :class:`Await`. Activations belong to a micro-batch, parameters
    and gradients to the whole step. ``layer`` is the layer of the activations, -1 for none.
    ``turn`` is 1 for the second of two passes beside each other.
    """

    communicator: Communicator
    operation: str
    size_bytes: int
    slot: str = ""
    activations: bool = False
    layer: int = -1
    turn: int = 0


@dataclass(frozen=True)
class Await:
    """Wait for the collective most recently joined as ``slot``, if there is one."""

    slot: str


@dataclass(frozen=True)
class ExtraLoad:
    """The following compute takes longer, or shorter, by the rank's share of the group's load.

    ``load`` returns, when it is called, the rank's load relative to the mean; ``part`` is the part
    of the pass's compute time that is proportional to it.
    """

    load: Callable[[], float]
    part: Fraction


Instruction = Compute | Join | Await | ExtraLoad
Program = tuple[Instruction, ...]
Point = tuple[Fraction, Instruction]
"""An instruction, and the fraction of the pass's compute time after which it occurs."""

PLAIN: Program = (Compute(Fraction(1)),)
"""A pass that only computes."""


def woven(program: Program, points: Iterable[Point]) -> Program:
    """``program`` with each of ``points`` inserted at its compute time.

    Points at one fraction keep their order and precede the program's own instructions there.

    >>> [type(i).__name__ for i in woven(PLAIN, [(Fraction(1, 2), Await("a"))])]
    ['Compute', 'Await', 'Compute']
    """
    waiting = sorted(points, key=lambda point: point[0])
    out: list[Instruction] = []
    done = Fraction(0)

    def put(until: Fraction) -> None:
        nonlocal done
        while waiting and waiting[0][0] <= until:
            at, instruction = waiting.pop(0)
            if at > done:
                out.append(Compute(at))
                done = at
            out.append(instruction)

    put(done)
    for instruction in program:
        if isinstance(instruction, Compute):
            put(instruction.until)
            if instruction.until > done:
                out.append(instruction)
                done = instruction.until
        else:
            out.append(instruction)
    return tuple(out)


def beside(first: Program, second: Program, share: Fraction) -> Program:
    """The program of two passes that take turns: where one would wait, the other computes.

    ``share`` is the first one's part of the compute time of both.

    >>> exchange = (Join(None, "dispatch", 1, "a"), Await("a"))
    >>> both = beside((*exchange, *PLAIN), PLAIN, Fraction(1, 3))
    >>> [str(i.until) if isinstance(i, Compute) else type(i).__name__ for i in both]
    ['Join', '2/3', 'Await', '1']
    """
    lanes = [_Lane(first, share, 0), _Lane(second, 1 - share, 1)]
    out: list[Instruction] = []
    done = Fraction(0)
    while any(lane.left for lane in lanes):
        for lane in lanes:
            for instruction in lane.until_next_wait():
                if isinstance(instruction, Compute):
                    done += instruction.until
                    instruction = Compute(done)
                out.append(instruction)
    return tuple(out)


class _Lane:
    """One of two passes beside each other, with its ``share`` of the compute time of both."""

    def __init__(self, program: Program, share: Fraction, turn: int) -> None:
        self.left = [*program]
        self._share = share
        self._turn = turn
        self._reached = Fraction(0)

    def until_next_wait(self) -> list[Instruction]:
        """Remove and return the instructions before its next wait, but at least one.

        The time of a compute is that since the last one.
        """
        out: list[Instruction] = []
        while self.left and not (out and isinstance(self.left[0], Await)):
            instruction = self.left.pop(0)
            if isinstance(instruction, Compute):
                length = instruction.until - self._reached
                self._reached = instruction.until
                instruction = Compute(length * self._share)
            elif isinstance(instruction, Join):
                instruction = replace(instruction, turn=self._turn)
            elif isinstance(instruction, ExtraLoad):
                instruction = replace(instruction, part=instruction.part * self._share)
            out.append(instruction)
        return out
