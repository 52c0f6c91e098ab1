"""Silence inside all-reduces: what the noise of a twin is measured by.

While an all-reduce runs, its data should flow without a rest and its answers come as steadily.
Where records were cut in the meantime, something rested: segments waited for each other, or small
packets for their host. How often, and for how long, tells one cause from another.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prism_sim.run_folder import Run

LIMITS_MS = (1, 2, 5)
KINDS = ("allreduce", "all_reduce")
"""What the captures' truth calls it, and what the simulator does."""


def windows(run: Run) -> pd.DataFrame:
    """When all members of a stage were in an all-reduce: job, pp, number in the step, span [ns].

    ``number`` counts a step's all-reduces from 0; they must run one after another, so that one
    that was asked for earlier begins when the one before it is over.
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
    """Mean number of silences of more than 1, 2 and 5 ms in an all-reduce and connection.

    ``flows`` are those of :func:`likeness.read`, cut at 1 ms or finer. Rows are
    by job, stage, number of the all-reduce and role of the pair.
    """
    stage_of = run.truth("ranks").set_index("address")["pp"]
    dp = flows[flows["role"].str.startswith("dp")]
    rows = []
    spans = dict(list(windows(run).groupby(["job", "pp", "number"])))
    for (job, role, _), own in dp.groupby(["job", "role", "pair"]):
        busiest = own.groupby(["src_port", "dst_port"])["payload"].transform("sum")
        own = own[busiest == busiest.max()].sort_values("start_ns")
        stage = stage_of[own["src"].iloc[0]]
        for (of, pp, number), found in spans.items():
            if (of, pp) == (job, stage):
                rests_ms = _rests_ms(own, found)
                counted = [(rests_ms > limit).sum() / len(found) for limit in LIMITS_MS]
                rows.append((job, pp, number, role, *counted))
    columns = ["job", "stage", "number", "role", *(f"> {ms} ms" for ms in LIMITS_MS)]
    made = pd.DataFrame(rows, columns=columns)
    return made.groupby(["job", "stage", "number", "role"]).mean()


def _rests_ms(own: pd.DataFrame, found: pd.DataFrame) -> NDArray[np.float64]:
    """Silences between records of one connection that reach into the same window [ms]."""
    start, end = own["start_ns"].to_numpy(), own["end_ns"].to_numpy()
    first = np.searchsorted(end, found["start_ns"], side="right")
    last = np.searchsorted(start, found["end_ns"], side="left")
    rests = [start[a + 1 : b] - end[a : b - 1] for a, b in zip(first, last, strict=True) if b > a]
    return np.concatenate(rests) * 1e-6 if rests else np.empty(0)
