"""The data that stages exchange: jobs, pairs, the timeline, groups.

Everything is an array of numbers. Addresses are endpoint codes (see
:mod:`llmprism.io.topology`), jobs are numbered in canonical order, kinds are indices into
:data:`KINDS`. Names are added only when a diagnosis is turned into tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmprism.numerics.arrays import Codes, Floats, Ints
from prism_common import kinds

KINDS = kinds.INFERRED
DP, PP = KINDS.index(kinds.DP), KINDS.index(kinds.PP)
SPAN_KINDS = kinds.SPANS

UNKNOWN = kinds.UNKNOWN  # a name that flows do not show
CANNOT_TELL = -1  # a number that flows do not show

Kinds = NDArray[np.int8]


@dataclass(frozen=True)
class Jobs:
    """The job of each address.

    Attributes
    ----------
    of_address : job of each endpoint, -1 for one without flows, shape (endpoints,).
    count : number of jobs; they are numbered 0 .. count - 1.
    """

    of_address: Codes
    count: int

    @property
    def names(self) -> list[str]:
        """Name of each job."""
        return [f"job-{i}" for i in range(self.count)]


@dataclass(frozen=True)
class Pairs:
    """The directed communicating pairs, in order of their first flow.

    Attributes
    ----------
    src, dst : endpoint codes, shape (pairs,).
    job : shape (pairs,).
    kind, kind_unrefined : index into KINDS after and before refinement, shape (pairs,).
    confidence : in [0, 1], shape (pairs,).
    start_ns, bytes : first start [ns] and all traffic [bytes], shape (pairs,).
    of_flow : pair of each flow, shape (flows,).
    """

    src: Codes
    dst: Codes
    job: Codes
    kind: Kinds
    kind_unrefined: Kinds
    confidence: Floats
    start_ns: Ints
    bytes: Ints
    of_flow: Codes


@dataclass(frozen=True)
class Steps:
    """The training steps of each rank, sorted by address, then time; arrays of shape (steps,).

    Attributes
    ----------
    address : endpoint code.
    step : number within the address, from 0.
    start_ns, end_ns : the step [ns].
    dp_start_ns, dp_end_ns : first start and last end of its DP traffic [ns].
    confidence : in [0, 1].
    """

    address: Codes
    step: Ints
    start_ns: Ints
    end_ns: Ints
    dp_start_ns: Ints
    dp_end_ns: Ints
    confidence: Floats

    def __len__(self) -> int:
        return int(self.step.size)


@dataclass(frozen=True)
class Spans:
    """A part of the activity of ranks over time; arrays of shape (spans,).

    Attributes
    ----------
    row : index into the rows of :class:`Steps`.
    kind : index into SPAN_KINDS.
    start_ns, end_ns : [ns].
    """

    row: Codes
    kind: Kinds
    start_ns: Ints
    end_ns: Ints


@dataclass(frozen=True)
class Timeline:
    """Steps and spans of all ranks, and the step of every DP flow at its sender.

    Attributes
    ----------
    spans : makes the spans of all steps, in order of steps, in parts: they take more memory than
        the records. At least one part.
    of_flow : row of :class:`Steps`, -1 for a flow that is not DP, shape (flows,).
    """

    steps: Steps
    spans: Callable[[], Iterator[Spans]]
    of_flow: Codes


@dataclass(frozen=True)
class Groups:
    """Members of DP groups and pipelines, sorted by job, kind, group; shape (members,).

    Attributes
    ----------
    job, kind, group : the group is numbered within its job and kind, from 0.
    address : endpoint code.
    position : order along the group from 0, -1 if unknown.
    """

    job: Codes
    kind: Kinds
    group: Ints
    address: Codes
    position: Ints


@dataclass(frozen=True)
class Finding:
    """One thing that was slow. Times and cost in [ns].

    ``magnitude`` is the share of its speed that the culprit lost (`prism`), or its time or rate
    relative to normal (`paper`).
    ``symptom`` is the observation, ``cause`` its explanation, if known.
    """

    level: str
    symptom: str
    cause: str
    job: int
    culprit_kind: str
    culprit: str
    first_step: int
    last_step: int
    start_ns: int
    end_ns: int
    magnitude: float
    cost: float
    confidence: float
    evidence: dict[str, object]


Findings = Sequence[Finding]
