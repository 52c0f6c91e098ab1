"""The contract of a method, and of the stages of which the methods here are made.

A third party can replace the whole (implement :class:`Method` and register it) or one stage
(hand it to :class:`~llmprism.methods.paper.StagedMethod`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.model import Finding, Groups, Jobs, Pairs, Progress, Timeline


class Method(Protocol):
    """Flows and topology in, the tables of a diagnosis out."""

    def __call__(
        self, flows: FlowTable, topology: Topology, progress: Progress
    ) -> Mapping[str, pd.DataFrame]:
        """Return the tables of :data:`llmprism.io.tables.DIAGNOSIS` by name.

        A table left out counts as empty. ``progress`` is called with the fraction done.
        """
        ...


class JobStage(Protocol):
    """Tells which addresses form a job."""

    def __call__(self, flows: FlowTable, topology: Topology) -> Jobs: ...


class PairStage(Protocol):
    """Tells what kind of traffic each pair carries."""

    def __call__(self, flows: FlowTable, jobs: Jobs) -> Pairs: ...


class TimelineStage(Protocol):
    """Tells when each rank's steps began and ended, and what it did in them."""

    def __call__(self, flows: FlowTable, pairs: Pairs) -> Timeline: ...


class GroupStage(Protocol):
    """Tells who trains in parallel with whom."""

    def __call__(self, flows: FlowTable, pairs: Pairs, timeline: Timeline) -> Groups: ...


class FaultStage(Protocol):
    """Tells what was slow."""

    def __call__(
        self,
        flows: FlowTable,
        topology: Topology,
        jobs: Jobs,
        pairs: Pairs,
        timeline: Timeline,
        groups: Groups,
    ) -> Sequence[Finding]: ...
