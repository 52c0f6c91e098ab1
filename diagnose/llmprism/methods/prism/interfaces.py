"""The stages of ``prism``, each a function of what earlier ones found.

Any of them can be replaced, by a function of the same form, in
:class:`~llmprism.methods.prism.method.StagedPrism`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.prism.context import Context
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.jobs.resolution import Refusal
from llmprism.methods.prism.layout.layout import Layout
from llmprism.methods.prism.layout.replicas import Replicas
from llmprism.methods.prism.layout.ring_sizes import RingShare
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.stepping import Part
from llmprism.methods.prism.timeline.closings import Closings
from llmprism.methods.prism.timeline.timeline import Ranks


class ConnectionStage(Protocol):
    """Groups records into connections, and tells which of these carry data."""

    def __call__(self, flows: FlowTable) -> Connections: ...


class PartStage(Protocol):
    """Finds components of connections, and the steps of each; a count of 0 where it has none."""

    def __call__(self, flows: FlowTable, connections: Connections) -> list[Part]: ...


class JobStage(Protocol):
    """Finds which parts are one job, and which are no training."""

    def __call__(
        self, flows: FlowTable, topology: Topology, connections: Connections, parts: list[Part]
    ) -> list[Job]: ...


class RefusalStage(Protocol):
    """Says why records do not show the steps of a job; None if they do."""

    def __call__(self, flows: FlowTable, connections: Connections, job: Job) -> Refusal | None: ...


class PhaseStage(Protocol):
    """Finds what each connection is for, and the traffic of each kind in each step."""

    def __call__(
        self, flows: FlowTable, topology: Topology, connections: Connections, job: Job
    ) -> Phases: ...


class PipelineStage(Protocol):
    """Finds the stages, their order and the micro-batches of a step."""

    def __call__(self, flows: FlowTable, connections: Connections, phases: Phases) -> Pipelines: ...


class ReplicaStage(Protocol):
    """Finds which NICs of a server are replicas of each other."""

    def __call__(
        self, topology: Topology, phases: Phases, pipelines: Pipelines, sample_bytes: float = 0.0
    ) -> list[Replicas]: ...


class RingStage(Protocol):
    """Finds how many ranks of each ring a server holds; None if nothing shows it."""

    def __call__(
        self, topology: Topology, connections: Connections, phases: Phases, pipelines: Pipelines
    ) -> RingShare | None: ...


class TimelineStage(Protocol):
    """Lays out the steps of every endpoint."""

    def __call__(
        self, phases: Phases, pipelines: Pipelines, closings: Closings | None = None
    ) -> Ranks: ...


class LayoutStage(Protocol):
    """Finds how many ranks there are along each axis."""

    def __call__(
        self,
        topology: Topology,
        connections: Connections,
        phases: Phases,
        pipelines: Pipelines,
        replicas: Sequence[Replicas],
        share: RingShare | None,
    ) -> Layout: ...


class UpdateStage(Protocol):
    """Ends steps after their update, where the next step shows its end."""

    def __call__(
        self,
        connections: Connections,
        phases: Phases,
        pipelines: Pipelines,
        ranks: Ranks,
        replicas: int,
    ) -> Ranks: ...


class FindingStage(Protocol):
    """Explains slow steps and stops."""

    def __call__(self, context: Context) -> pd.DataFrame: ...
