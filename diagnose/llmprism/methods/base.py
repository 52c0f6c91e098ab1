"""The interfaces of a method, and of the stages of the published method.

Other packages can replace the whole method (implement :class:`Method` and register it) or one
stage: pass it to :class:`~llmprism.methods.paper.StagedMethod`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.parts import InParts
from llmprism.io.topology import Topology
from llmprism.model import Finding, Groups, Jobs, Pairs, Timeline
from prism_common.progress import Progress


class Method(Protocol):
    """Turns flows and topology into the tables of a diagnosis."""

    def __call__(
        self, flows: FlowTable, topology: Topology, progress: Progress
    ) -> Mapping[str, pd.DataFrame | InParts]:
        """Return the tables of :data:`llmprism.io.tables.DIAGNOSIS` by name.

        A table left out counts as empty. Spans may be in parts. ``progress`` is called with the
        fraction done.
        """
        ...


class JobStage(Protocol):
    """Finds the addresses of each job."""

    def __call__(self, flows: FlowTable, topology: Topology) -> Jobs: ...


class PairStage(Protocol):
    """Classifies the traffic of each pair."""

    def __call__(self, flows: FlowTable, jobs: Jobs) -> Pairs: ...


class TimelineStage(Protocol):
    """Finds the start and end of each rank's steps, and the activity in them."""

    def __call__(self, flows: FlowTable, pairs: Pairs) -> Timeline: ...


class GroupStage(Protocol):
    """Finds the groups of ranks that train in parallel."""

    def __call__(self, flows: FlowTable, pairs: Pairs, timeline: Timeline) -> Groups: ...


class FaultStage(Protocol):
    """Finds slow parts."""

    def __call__(
        self,
        flows: FlowTable,
        topology: Topology,
        jobs: Jobs,
        pairs: Pairs,
        timeline: Timeline,
        groups: Groups,
    ) -> Sequence[Finding]: ...
