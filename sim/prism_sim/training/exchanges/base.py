"""The base of all exchanges inside a pass.

Parallel ranks that share a layer exchange activations while they compute it: before a phase
of a layer, after it, or during it. An exchange adds instructions to a phase; the phases together
make the program of a pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Protocol, Self

from prism_sim.scenario.base import Closed, Loc, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.groups import JobGroups
from prism_sim.training.layers import Phase, Unit
from prism_sim.training.program import (
    Await,
    Communicator,
    Compute,
    ExtraLoad,
    Instruction,
    Join,
    Point,
    Program,
)


@dataclass(frozen=True)
class Around:
    """Instructions that an exchange adds to a phase.

    Attributes
    ----------
    before, after : instructions before and after it; the part of an extra load is in units of
        the phase's weight.
    during : instructions, by the fraction of the phase after which they occur.
    """

    before: tuple[Instruction, ...] = ()
    during: tuple[Point, ...] = ()
    after: tuple[Instruction, ...] = ()


class Exchange(Protocol):
    """One kind of parallelism for one worker."""

    def around(self, phase: Phase, forward: bool) -> Around:
        """The instructions to add to ``phase`` of a forward or backward pass."""


class ExchangeBase(Closed, ABC):
    """One kind of parallelism: the jobs that use it, and the exchanges of their workers.

    Attributes
    ----------
    name : name of the kind.
    key : key of a job that enables it, with its options as fields; empty if the job's layout
        (tp, cp, ep) determines it.
    about : description of the key, for the schema.
    spans : kinds of spans of the exchange in the truth.
    """

    name: ClassVar[str]
    key: ClassVar[str] = ""
    about: ClassVar[str] = ""
    spans: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, job: JobConfig) -> Self | None:
        """The exchange of ``job``; None if it has none."""
        found: Self | None = getattr(job, cls.key)
        return found

    @classmethod
    def checks(cls, job: JobConfig, at: Loc) -> Remarks:
        """Errors if ``job`` (at ``at`` in the scenario) cannot have this exchange."""
        yield from ()

    @abstractmethod
    def open(self, groups: JobGroups, stage: int) -> Mapping[int, Exchange]:
        """The exchange of each member of ``stage``; members without one are left out."""


def blocking(
    communicator: Communicator, operation: str, size_bytes: int, layer: int
) -> tuple[Instruction, Instruction]:
    """Join a collective of activations, and wait for it at once."""
    slot = f"{operation} {layer}"
    return Join(communicator, operation, size_bytes, slot, activations=True, layer=layer), Await(
        slot
    )


def pass_program(
    units: Sequence[Unit], exchanges: Sequence[Exchange], forward: bool
) -> Program | None:
    """A pass through ``units`` with all its exchanges; None if there are none."""
    phases = [phase for unit in units for phase in unit.phases]
    total = sum(phase.weight for phase in phases) or 1  # the embedding alone has weight 0
    if not forward:
        phases.reverse()
    program: list[Instruction] = []
    done = 0
    for phase in phases:
        begin, length = Fraction(done, total), Fraction(phase.weight, total)
        parts = [exchange.around(phase, forward) for exchange in exchanges]
        program += [_as_part(i, total) for part in parts for i in part.before]
        program += _computed(begin, length, [p for part in parts for p in part.during])
        program += [i for part in reversed(parts) for i in part.after]
        done += phase.weight
    communicates = any(not isinstance(instruction, Compute) for instruction in program)
    return tuple(program) if communicates else None


def _as_part(instruction: Instruction, total: int) -> Instruction:
    """``instruction``; an extra load is scaled to a pass of weight ``total``."""
    if isinstance(instruction, ExtraLoad):
        return replace(instruction, part=instruction.part / total)
    return instruction


def _computed(begin: Fraction, length: Fraction, points: Iterable[Point]) -> list[Instruction]:
    """The phase's compute, divided at its ``points``."""
    out: list[Instruction] = []
    reached = begin
    for at, instruction in sorted(points, key=lambda point: point[0]):
        if begin + at * length > reached:
            reached = begin + at * length
            out.append(Compute(reached))
        out.append(instruction)
    if begin + length > reached:
        out.append(Compute(begin + length))
    return out
