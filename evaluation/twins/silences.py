"""Silences inside all-reduces, which show the noise of hosts and library.

While an all-reduce runs, its data and the answers should be sent without a pause. A record that
ends in this time shows a pause: segments waited for each other, or small packets waited for their
host. The number and length of the pauses distinguish the causes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prism_sim.run_folder import Run

LIMITS_MS = (1, 2, 5)
KINDS = ("allreduce", "all_reduce")
"""Name of an all-reduce in the truth of the captures, and in that of the simulator."""


def windows(run: Run) -> pd.DataFrame:
    """Times in which all ranks of a stage take part in an all-reduce, in order of their end.

    Columns: job, pp, step, number in the step (from 0), start and end [ns]. The all-reduces of a
    step run one after another, so each starts after the end of the one before it.
    """
    spans = run.truth("spans")
    spans = spans[spans["kind"].isin(KINDS)].merge(run.truth("ranks")[["job", "rank", "pp"]])
    spans = spans.sort_values("end_ns")
    own = spans.groupby(["job", "rank", "step"])
    spans["number"] = own.cumcount()
    spans["start_ns"] = spans[["start_ns"]].assign(before=own["end_ns"].shift()).max(axis=1)
    by = spans.groupby(["job", "pp", "step", "number"], as_index=False)
    return by.agg(start_ns=("start_ns", "max"), end_ns=("end_ns", "min"))


def silences(run: Run, flows: pd.DataFrame) -> pd.DataFrame:
    """Mean number of silences above 1, 2 and 5 ms for each all-reduce and connection.

    ``flows`` come from :func:`likeness.read`, with an idle gap of at most 1 ms. There is a row for
    each job, stage, number of the all-reduce and role of the pair.
    """
    stage_of = run.truth("ranks").set_index("address")["pp"]
    dp = flows[flows["role"].str.startswith("dp")]
    rows = []
    spans = dict(list(windows(run).groupby(["job", "pp", "number"])))
    for (job, role, _), own in dp.groupby(["job", "role", "pair"]):
        busiest = own.groupby(["src_port", "dst_port"])["payload"].transform("sum")
        own = own[busiest == busiest.max()].sort_values("start_ns")
        stage = stage_of[own["src"].iloc[0]]
        for (owner, pp, number), found in spans.items():
            if (owner, pp) == (job, stage):
                pauses_ms = _pauses_ms(own, found)
                counted = [(pauses_ms > limit).sum() / len(found) for limit in LIMITS_MS]
                rows.append((job, pp, number, role, *counted))
    columns = ["job", "stage", "number", "role", *(f"> {ms} ms" for ms in LIMITS_MS)]
    made = pd.DataFrame(rows, columns=columns)
    return made.groupby(["job", "stage", "number", "role"]).mean()


def _pauses_ms(own: pd.DataFrame, found: pd.DataFrame) -> NDArray[np.float64]:
    """Silences between the records of one connection that overlap the same window [ms]."""
    start, end = own["start_ns"].to_numpy(), own["end_ns"].to_numpy()
    first = np.searchsorted(end, found["start_ns"], side="right")
    last = np.searchsorted(start, found["end_ns"], side="left")
    pauses = [start[a + 1 : b] - end[a : b - 1] for a, b in zip(first, last, strict=True) if b > a]
    return np.concatenate(pauses) * 1e-6 if pauses else np.empty(0)
