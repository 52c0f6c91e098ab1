"""Variants of both methods: ``paper`` with a part of ``prism``, ``prism`` with a simpler stage.

Importing this module registers every variant as a method of ``llmprism`` under its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from llmprism import methods
from llmprism.diagnosis import conform
from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.paper import StagedMethod, timeline
from llmprism.methods.paper.cutting import Cuts
from llmprism.methods.paper.parallelism import classify_pairs
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.jobs.jobs import job_of
from llmprism.methods.prism.method import StagedPrism
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections, find_connections
from llmprism.methods.prism.segment.stepping import Part
from llmprism.methods.prism.timeline.closings import Closings
from llmprism.methods.prism.timeline.timeline import Ranks, find_timeline
from llmprism.model import KINDS, Jobs, Pairs, Progress
from llmprism.numerics.arrays import Grouped, Ints

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Variant:
    """A method under the name by which it is registered, and what it does."""

    name: str
    meaning: str


REPAIRED: list[Variant] = []
"""``paper`` with parts of ``prism``."""
REDUCED: list[Variant] = []
"""``prism`` with a simpler stage."""


def _silent(_fraction: float, _doing: str) -> None:
    pass


class Given:
    """What ``prism`` finds in some flows, in the form of the stages of ``paper``."""

    def __init__(self, flows: FlowTable, topology: Topology) -> None:
        self._tables, _ = conform("prism", methods.get("prism")(flows, topology, _silent))
        self._code = {name: code for code, name in enumerate(flows.addresses)}

    def jobs(self, flows: FlowTable, _topology: Topology) -> Jobs:
        """The jobs."""
        table = self._tables["jobs"]
        names = list(dict.fromkeys(table["job"]))
        of_address = np.full(len(flows.addresses), -1, np.int32)
        of_address[table["address"].map(self._code)] = table["job"].map(names.index)
        return Jobs(of_address, len(names))

    def pairs(self, flows: FlowTable, found: Jobs) -> Pairs:
        """The pairs of ``paper`` with the kinds of ``prism``, where it has one."""
        pairs, table = classify_pairs(flows, found), self._tables["pairs"]
        table = table[table["kind"].isin(KINDS)]
        kind = pairs.kind.copy()
        given = zip(table["src"].map(self._code), table["dst"].map(self._code), table["kind"],
                    strict=True)  # fmt: skip
        known = {(src, dst): KINDS.index(name) for src, dst, name in given}
        for i, pair in enumerate(zip(pairs.src.tolist(), pairs.dst.tolist(), strict=True)):
            kind[i] = known.get(pair, kind[i])
        return replace(pairs, kind=kind, kind_unrefined=kind)

    def cuts(self, start_ns: Ints, _end_ns: Ints, by: Grouped) -> Cuts:
        """The records of each address, cut where the steps of ``prism`` end."""
        step = np.zeros(by.order.size, np.int64)
        known = self._tables["steps"].dropna(subset=["dp_end_ns"])
        for address, own in known.groupby("address"):
            code = self._code[str(address)]
            inside = slice(by.offsets[code], by.offsets[code + 1])
            ends = np.sort(own["dp_end_ns"].to_numpy(np.int64))
            step[inside] = np.searchsorted(ends, start_ns[by.order[inside]], side="right")
        return Cuts(step, np.append(0, np.diff(step) > 0).astype(np.float64))


def _repaired(name: str, meaning: str, parts: Iterable[str]) -> None:
    @methods.register(name)
    def run(flows: FlowTable, topology: Topology, progress: Progress) -> Tables:
        if "records" in parts:
            flows = _carrying(flows)
        given = Given(flows, topology)
        stages = {part: getattr(given, part) for part in ("jobs", "pairs") if part in parts}
        cut = given.cuts if "cuts" in parts else timeline.cut_steps
        with patch.object(timeline, "cut_steps", cut):
            return StagedMethod(**stages)(flows, topology, progress)

    REPAIRED.append(Variant(name, meaning))


def _carrying(flows: FlowTable) -> FlowTable:
    """The records that may carry training data."""
    found = find_connections(flows)
    kept = found.carries[found.of_row] & ~found.small
    names = ("start_ns", "end_ns", "src", "dst", "bytes", "path")
    optional = {name: column[kept] for name, column in flows.optional.items()}
    return replace(flows, optional=optional, **{name: getattr(flows, name)[kept] for name in names})


def _reduced(name: str, meaning: str, **stages: Any) -> None:
    methods.register(name)(StagedPrism(**stages))
    REDUCED.append(Variant(name, meaning))


def _unscreened(flows: FlowTable) -> Connections:
    found = find_connections(flows)
    none = np.zeros(len(found), np.bool_)
    return replace(found, answer=none, light=none)


def _separate(_flows: Any, _topology: Any, _connections: Any, parts: list[Part]) -> list[Job]:
    return [job_of([part], [part]) for part in parts if part.stepping.count]


def _phases_as_they_are(_flows: Any, _connections: Any, phases: Phases, _pipelines: Any) -> Phases:
    return phases


def _at_ends(phases: Phases, pipelines: Pipelines, closings: Closings | None = None) -> Ranks:
    return find_timeline(phases, replace(pipelines, length=1), closings)


def _as_they_are(
    _connections: Any, _phases: Any, _pipelines: Any, ranks: Ranks, _sharing: Any
) -> Ranks:
    return ranks


_repaired(
    "paper + records", "acknowledgements, control messages and services are left out", ["records"]
)
_repaired(
    "paper + jobs", "jobs from traffic that circulates and steps that keep their distance", ["jobs"]
)
_repaired("paper + kinds", "kinds of pairs from volumes, directions and shapes", ["pairs"])
_repaired("paper + steps", "steps from parts of equal volume instead of change points", ["cuts"])
_repaired("paper + all four", "all of these", ["records", "jobs", "pairs", "cuts"])

_reduced("prism - screening", "acknowledgements and the smallest flows count as data",
         connections=_unscreened)  # fmt: skip
_reduced("prism - synchrony", "parts that share no connection are jobs of their own",
         jobs=_separate)  # fmt: skip
_reduced("prism - late gathers", "parameters gathered in the next step count as its end",
         gathers=_phases_as_they_are)  # fmt: skip
_reduced("prism - first activations", "a step begins where the last one ended",
         timeline=_at_ends)  # fmt: skip
_reduced("prism - updates", "what sends nothing after the last gradients is host work",
         updates=_as_they_are)  # fmt: skip
_reduced("prism - ring sizes", "bytes of messages do not show the members of a ring",
         rings=lambda *_given: None)  # fmt: skip
_reduced("prism - replicas", "groups that NVLink joins stay apart",
         replicas=lambda *_given: [])  # fmt: skip
_reduced("prism - refusal", "records longer than a step have a timeline",
         refusal=lambda *_given: None)  # fmt: skip
