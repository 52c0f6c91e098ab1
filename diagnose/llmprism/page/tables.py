"""What the page and the trace read of a diagnosis, each table once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.io.nics import bonds, frame_by_nic
from llmprism.page import reading
from llmprism.page.activity import WAIT, codes_in, of_pipelines, waiting
from llmprism.part_names import Parts, natural
from llmprism.sentences import JobFacts, facts_of
from prism_common.kinds import COMPUTE

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tables:
    """A diagnosis, its flow records and its topology; a table that the run lacks is empty."""

    jobs: pd.DataFrame
    layouts: pd.DataFrame
    groups: pd.DataFrame
    pairs: pd.DataFrame
    steps: pd.DataFrame
    plain_spans: pd.DataFrame
    findings: pd.DataFrame
    flows: pd.DataFrame
    topology: dict[str, Any]
    intake: dict[str, Any]

    @staticmethod
    def of(folder: Path) -> Tables:
        """Read everything in ``folder``."""
        topology = reading.topology(folder)
        columns = ["start_ns", "end_ns", "src", "dst", "bytes"]
        columns += ["path"] if bonds(topology) else []
        return Tables(
            jobs=_categorical(reading.diagnosis(folder, "jobs")),
            layouts=reading.diagnosis(folder, "layouts"),
            groups=_categorical(reading.diagnosis(folder, "groups")),
            pairs=_categorical(reading.diagnosis(folder, "pairs")),
            steps=_categorical(reading.diagnosis(folder, "steps")),
            plain_spans=_categorical(reading.diagnosis(folder, "spans")),
            findings=reading.diagnosis(folder, "findings"),
            flows=reading.flows(folder, columns),
            topology=topology,
            intake=reading.intake(folder),
        )

    @staticmethod
    def of_frames(
        tables: Mapping[str, pd.DataFrame],
        spans: pd.DataFrame,
        flows: pd.DataFrame,
        topology: dict[str, Any],
    ) -> Tables:
        """Take the tables of a diagnosis that is in memory."""
        coded = {
            name: _categorical(table) if name in ("jobs", "groups", "pairs", "steps") else table
            for name, table in tables.items()
        }
        spans = _categorical(spans)
        return Tables(**coded, plain_spans=spans, flows=flows, topology=topology, intake={})

    @cached_property
    def messages(self) -> pd.DataFrame:
        """The flow records between stages of a pipeline."""
        return of_pipelines(self.pairs, frame_by_nic(self.flows, self.topology))

    @cached_property
    def spans(self) -> pd.DataFrame:
        """The spans of the diagnosis, with waiting."""
        return waiting(self.plain_spans, self.steps, self.groups, self.messages)

    @cached_property
    def parts(self) -> Parts:
        """Names of the endpoints."""
        return Parts.of(self.topology)

    @cached_property
    def origin_ns(self) -> int:
        """Time zero of the page [ns]: the first step, or the first record."""
        for table in (self.steps, self.flows):
            if len(table):
                return int(table["start_ns"].min())
        return 0

    @cached_property
    def job_facts(self) -> dict[str, JobFacts]:
        """Size and times of each job."""
        return facts_of(self.jobs, self.steps, self.parts, self.layouts)

    def addresses_of(self, job: str) -> list[str]:
        """Addresses of a job, in order."""
        own = self.jobs.loc[self.jobs["job"] == job, "address"]
        return sorted(own.astype(str).unique(), key=natural)

    def servers_of(self, job: str) -> list[str]:
        """Servers of a job, in the order of their names."""
        return sorted({self.parts.server(one) for one in self.addresses_of(job)}, key=natural)

    def job_steps(self, job: str) -> pd.DataFrame:
        """Start and end of each step of a job: the medians over its ranks, index ``step``."""
        own = self.steps[self.steps["job"] == job]
        return own.groupby("step")[["start_ns", "end_ns"]].median().astype(np.int64)

    @cached_property
    def _times(self) -> dict[str, dict[str, Floats]]:
        return {}

    def step_times(self, job: str) -> dict[str, Floats]:
        """Time of each address in each step of a job [ns]; NaN where it has no step.

        Shapes are (addresses, steps), in the orders of :meth:`addresses_of` and
        :meth:`job_steps`. The keys are ``work`` (computation), ``waiting``, ``transfers``
        (communication) and ``step``.
        """
        if job not in self._times:
            self._times[job] = self._measured(job)
        return self._times[job]

    def _measured(self, job: str) -> dict[str, Floats]:
        addresses, steps = pd.Index(self.addresses_of(job)), self.job_steps(job).index

        def sums(table: pd.DataFrame) -> Floats:
            row, column = (
                codes_in(table["address"], addresses),
                steps.get_indexer(pd.Index(table["step"])),
            )
            known = (row >= 0) & (column >= 0)
            length = (table["end_ns"] - table["start_ns"]).to_numpy(float)
            cell = row[known] * len(steps) + column[known]
            cells = len(addresses) * len(steps)
            total = np.bincount(cell, length[known], cells).astype(float)
            return total.reshape(len(addresses), len(steps))

        spans = self.spans[self.spans["job"] == job]
        whole = sums(self.steps[self.steps["job"] == job])
        parts = {
            "work": sums(spans[spans["kind"] == COMPUTE]),
            "waiting": sums(spans[spans["kind"] == WAIT]),
            "transfers": sums(spans[~spans["kind"].isin([COMPUTE, WAIT])]),
            "step": whole,
        }
        return {name: np.where(whole > 0, part, np.nan) for name, part in parts.items()}


def _categorical(table: pd.DataFrame) -> pd.DataFrame:
    names = [name for name in ("job", "address", "kind", "src", "dst") if name in table]
    return table.astype(dict.fromkeys(names, "category"))
