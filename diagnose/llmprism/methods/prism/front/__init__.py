"""The front of ``prism``: from records to jobs, layouts and steps.

Records become lanes (:mod:`observe`), lanes are divided into steps (:mod:`segment`), components in
phase become jobs (:mod:`jobs`), lanes get kinds and jobs layouts (:mod:`layouts`), ranks get the
begin and end of each step (:mod:`timeline`).
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.prism.front.jobs import Part, find_parts, join_parts
from llmprism.methods.prism.front.layouts.layout import find_layout
from llmprism.methods.prism.front.observe.connections import find_connections
from llmprism.methods.prism.front.observe.lanes import Observation, observe
from llmprism.methods.prism.front.refusal import reason
from llmprism.methods.prism.front.segment.cutting import cut_lane, ended
from llmprism.methods.prism.front.tables import DiagnosedJob, tables_of
from llmprism.methods.prism.front.timeline import find_timeline
from llmprism.model import Progress


def diagnose(
    flows: FlowTable, topology: Topology, progress: Progress
) -> Mapping[str, pd.DataFrame]:
    """Jobs, pairs, groups, layouts and steps; see :class:`~llmprism.methods.base.Method`."""
    if not len(flows):
        return {}
    progress(0.0, "finding connections")
    seen = observe(flows, find_connections(flows, topology))
    if not seen.lanes:
        return {}
    progress(0.3, "finding jobs and their steps")
    parts = join_parts(find_parts(seen, topology), seen.lanes)
    progress(0.7, "reconstructing timelines")
    jobs = [diagnosed(seen, part, topology) for part in parts]
    return tables_of(topology, seen, jobs)


def diagnosed(seen: Observation, part: Part, topology: Topology) -> DiagnosedJob:
    """The layout and timeline of one job."""
    borders = part.borders
    why = reason(part, seen.lanes)
    if borders is None or why is not None:
        return DiagnosedJob(part, why)
    cut = [cut_lane(seen.lanes[lane], borders, lane in part.balances) for lane in part.lanes]
    cut, borders = ended(cut, borders)
    layout = find_layout(cut, part.endpoints, borders, seen.exporter, topology)
    return DiagnosedJob(part, None, layout, find_timeline(cut, part.endpoints, borders, layout))
