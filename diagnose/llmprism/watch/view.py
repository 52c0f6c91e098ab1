"""What a window shows: the figures of each job, and the tables behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from llmprism.batches.chains import members_of
from llmprism.page import reading
from llmprism.page.tables import Tables
from llmprism.part_names import natural
from llmprism.watch.following import Followed
from llmprism.watch.network import Network
from llmprism.watch.window import Span

_FLOWS = ("start_ns", "end_ns", "src", "dst", "bytes")
_LAYOUT = ("dp", "pp", "tp", "ep", "cp")


@dataclass(frozen=True)
class JobLayout:
    """Where a job is, and how it is laid out; ``confidence`` is in [0, 1]."""

    name: str
    servers: list[str]
    gpus: int
    layout: str
    confidence: float


@dataclass(frozen=True)
class JobFigures(JobLayout):
    """A job in a window.

    Attributes
    ----------
    step_ns : median length of its steps [ns]; None if none was found.
    waiting : share of its steps that its ranks wait; None if that is unknown.
    coverage : share of the steps of its ranks that were found.
    lengths_ns : length of each of its last steps, by number [ns].
    """

    step_ns: float | None
    waiting: float | None
    coverage: float
    last_step: int
    lengths_ns: dict[int, int]

    def with_steps(self, lengths_ns: dict[int, int]) -> JobFigures:
        """The figures after further steps of such lengths."""
        if not lengths_ns:
            return self
        every = dict([*{**self.lengths_ns, **lengths_ns}.items()][-max(len(self.lengths_ns), 1) :])
        step_ns = float(np.median([*every.values()]))
        return replace(self, lengths_ns=every, step_ns=step_ns, last_step=max(every))


@dataclass(frozen=True)
class View:
    """A window that was diagnosed.

    Attributes
    ----------
    folder : where its flow table is.
    took_s : time that the diagnosis took [s].
    others : jobs that were followed, and not diagnosed.
    steps : those that ``others`` completed.
    """

    followed: Followed
    network: Network
    span: Span
    folder: Path
    took_s: float
    others: frozenset[str]
    steps: pd.DataFrame

    @cached_property
    def tables(self) -> Tables:
        """The tables of a page about the window."""
        diagnosis = self.followed.diagnosis
        names = ("jobs", "layouts", "groups", "pairs", "steps", "findings")
        tables: dict[str, pd.DataFrame] = {name: getattr(diagnosis, name) for name in names}
        return Tables.of_frames(
            tables,
            spans=diagnosis.spans,
            flows=reading.flows(self.folder, _FLOWS),
            topology=self.network.content,
        )

    @cached_property
    def figures(self) -> dict[str, JobFigures]:
        """The figures of its jobs, by name."""
        return {one.name: self._figures(one) for one in self.layouts}

    @cached_property
    def leaf_rates(self) -> dict[str, tuple[float, float]]:
        """What the NICs of each leaf sent and received in the window [bytes/s]."""
        flows, leaves = self.tables.flows, self.network.leaf_of
        seconds = (flows["end_ns"].max() - flows["start_ns"].min()) / 1e9 if len(flows) else 0.0
        if not seconds:
            return {}
        sums = [
            flows.groupby(flows[side].astype(str).map(leaves))["bytes"].sum()
            for side in ("src", "dst")
        ]
        return {
            leaf: (float(sums[0].get(leaf, 0)) / seconds, float(sums[1].get(leaf, 0)) / seconds)
            for leaf in sorted(set(leaves.values()))
        }

    @cached_property
    def layouts(self) -> list[JobLayout]:
        """Where its jobs are."""
        diagnosis, parts = self.followed.diagnosis, self.network.parts
        rows = {str(row["job"]): row for row in diagnosis.layouts.to_dict("records")}
        found = []
        for job, addresses in members_of(diagnosis).items():
            row = rows.get(job, {})
            axes = [f"{axis} {row[axis]}" for axis in _LAYOUT if row.get(axis, -1) > 1]
            servers = sorted({parts.server(one) for one in addresses}, key=natural)
            gpus, sure = parts.gpu_count(addresses), float(row.get("confidence", 0.0))
            found.append(JobLayout(job, servers, gpus, ", ".join(axes), sure))
        return found

    def _figures(self, job: JobLayout) -> JobFigures:
        steps, times = self.tables.job_steps(job.name), self.tables.step_times(job.name)
        lengths = (steps["end_ns"] - steps["start_ns"]).astype(np.int64)
        whole = float(np.nansum(times["step"]))
        return JobFigures(
            **vars(job),
            step_ns=float(lengths.median()) if len(lengths) else None,
            waiting=float(np.nansum(times["waiting"])) / whole if whole else None,
            coverage=float(np.isfinite(times["step"]).mean()) if times["step"].size else 0.0,
            last_step=int(steps.index.max()) if len(steps) else -1,
            lengths_ns=dict(zip(lengths.index.tolist(), lengths.tolist(), strict=True)),
        )


_KEPT = 1_000  # lengths of steps


@dataclass(frozen=True)
class Shown:
    """What is known of all jobs: the last diagnosis of each, and its steps since.

    Rates of leaves are those of the last window that was diagnosed as a whole.

    Attributes
    ----------
    views : the view of the last diagnosis of each job, by its name.
    whole, latest : the last view of a whole window, and the last one of all.
    lengths_ns : lengths of the steps since, by job and number [ns].
    """

    views: dict[str, View]
    whole: View
    latest: View
    lengths_ns: dict[str, dict[int, int]]

    @property
    def jobs(self) -> list[JobFigures]:
        """The figures of all jobs."""
        return [
            view.figures[job].with_steps(self.lengths_ns.get(job, {}))
            for job, view in self.views.items()
        ]

    def with_steps(self, steps: pd.DataFrame) -> Shown:
        """The same after further ``steps``, which no diagnosis has shown."""
        lengths_ns = {job: dict(lengths) for job, lengths in self.lengths_ns.items()}
        for job, own in steps.groupby("job"):
            lengths = (own["end_ns"] - own["start_ns"]).tolist()
            known = {
                **lengths_ns.get(str(job), {}),
                **dict(zip(own["step"].tolist(), lengths, strict=True)),
            }
            lengths_ns[str(job)] = dict([*known.items()][-_KEPT:])
        return replace(self, lengths_ns=lengths_ns)


def shown_after(before: Shown | None, view: View) -> Shown:
    """What is known after a diagnosis; ``before`` has the jobs that it leaves out."""
    own = dict.fromkeys(view.figures, view)
    if before is None:
        return Shown(own, view, view, {})
    views = {job: one for job, one in before.views.items() if job in view.others} | own
    lengths_ns = {job: one for job, one in before.lengths_ns.items() if job in view.others}
    whole = before.whole if view.others else view
    return Shown(views, whole, view, lengths_ns).with_steps(view.steps)
