"""What a window shows: the figures of each job, and the tables behind them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from llmprism.page import reading
from llmprism.page.tables import Tables
from llmprism.watch.following import Followed
from llmprism.watch.network import Network
from llmprism.watch.window import Span

_FLOWS = ("start_ns", "end_ns", "src", "dst", "bytes")
_LAYOUT = ("dp", "pp", "tp", "ep", "cp")


@dataclass(frozen=True)
class JobFigures:
    """A job in a window.

    Attributes
    ----------
    step_ns : median length of its steps [ns]; None if none was found.
    waiting : share of its steps that its ranks wait; None if that is unknown.
    coverage : share of the steps of its ranks that were found.
    confidence : of its layout, in [0, 1].
    lengths_ns : length of each of its last steps, by number [ns].
    """

    name: str
    servers: list[str]
    gpus: int
    layout: str
    step_ns: float | None
    waiting: float | None
    coverage: float
    confidence: float
    last_step: int
    lengths_ns: dict[int, int]


@dataclass(frozen=True)
class View:
    """A window that was diagnosed.

    Attributes
    ----------
    folder : where its flow table is.
    took_s : time that the diagnosis took [s].
    """

    followed: Followed
    network: Network
    span: Span
    folder: Path
    took_s: float

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
    def jobs(self) -> list[JobFigures]:
        """The figures of all jobs."""
        return [self._figures(job) for job in self.tables.jobs["job"].astype(str).unique()]

    @cached_property
    def leaf_rates(self) -> dict[str, tuple[float, float]]:
        """What the NICs of each leaf sent and received in the window [bytes/s]."""
        flows, leaves = self.tables.flows, self._leaves
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

    @property
    def _leaves(self) -> dict[str, str]:
        ends = self.network.topology.endpoints
        return {end.address: end.switch for end in ends if end.switch}

    def _figures(self, job: str) -> JobFigures:
        tables = self.tables
        steps, times = tables.job_steps(job), tables.step_times(job)
        lengths = (steps["end_ns"] - steps["start_ns"]).astype(np.int64)
        layout = tables.layouts[tables.layouts["job"] == job].to_dict("records")
        axes = [f"{axis} {layout[0][axis]}" for axis in _LAYOUT if layout and layout[0][axis] > 1]
        whole = float(np.nansum(times["step"]))
        return JobFigures(
            name=job,
            servers=tables.servers_of(job),
            gpus=tables.parts.gpu_count(tables.addresses_of(job)),
            layout=", ".join(axes),
            step_ns=float(lengths.median()) if len(lengths) else None,
            waiting=float(np.nansum(times["waiting"])) / whole if whole else None,
            coverage=float(np.isfinite(times["step"]).mean()) if times["step"].size else 0.0,
            confidence=float(layout[0]["confidence"]) if layout else 0.0,
            last_step=int(steps.index.max()) if len(steps) else -1,
            lengths_ns=dict(zip(lengths.index.tolist(), lengths.tolist(), strict=True)),
        )
