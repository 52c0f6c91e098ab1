"""``method="paper"``: LLMPrism as published (arXiv 2505.00342), the baseline.

Where a literal reading cannot work, it is corrected: sigma is the standard deviation (trap 1,
:mod:`~llmprism.methods.paper.sigma`) and the change-point rule uses the mass on short run
lengths (trap 3, :mod:`~llmprism.methods.paper.cutting`). Every other weakness of the published
method is kept and documented in its stage. In particular, no record is filtered, neither
acknowledgements nor connection set-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.frames import tables
from llmprism.io.parts import InParts
from llmprism.io.topology import Topology
from llmprism.methods import register
from llmprism.methods.base import FaultStage, GroupStage, JobStage, PairStage, TimelineStage
from llmprism.methods.paper.findings import diagnose_faults
from llmprism.methods.paper.parallelism import classify_pairs, form_groups, layouts, recognise_jobs
from llmprism.methods.paper.timeline import reconstruct
from llmprism.numerics.memory import give_back
from prism_common.progress import Progress


@dataclass(frozen=True)
class StagedMethod:
    """The four published stages (the second one also finds groups); each can be replaced."""

    jobs: JobStage = recognise_jobs
    pairs: PairStage = classify_pairs
    timeline: TimelineStage = reconstruct
    groups: GroupStage = form_groups
    faults: FaultStage = diagnose_faults

    def __call__(
        self, flows: FlowTable, topology: Topology, progress: Progress
    ) -> Mapping[str, pd.DataFrame | InParts]:
        """Run the stages in order."""
        progress(0.0, "recognising jobs")
        jobs = self.jobs(flows, topology)
        progress(0.1, "classifying pairs")
        pairs = self.pairs(flows, jobs)
        progress(0.4, "reconstructing timelines")
        timeline = self.timeline(flows, pairs)
        progress(0.7, "forming groups")
        give_back()
        groups = self.groups(flows, pairs, timeline)
        give_back()
        progress(0.8, "looking for what was slow")
        findings = self.faults(flows, topology, jobs, pairs, timeline, groups)
        progress(0.95, "filling tables")
        named = tables(flows.addresses, jobs, pairs, timeline, groups, findings)
        return {**named, "layouts": layouts(jobs, groups, timeline.steps)}


paper = register("paper")(StagedMethod())
