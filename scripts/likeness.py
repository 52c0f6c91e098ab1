"""How alike two worlds look on the wire: a real capture, and the twin that was made of it.

Records that were cut by silence alone are nested: those of a longer idle gap are unions of
those of a shorter one. So one flow table of the shortest gap tells all the others, and both
worlds are compared gap by gap: how many records there are and of what, how large, how long,
and how many a pair and step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from prism_sim.run_folder import Run

GAPS_MS = (1, 2, 5, 10)
"""Idle gaps at which the real captures were cut [ms]."""
SMALL_BYTES = 10_000
"""A record with less payload holds no part of a tensor: control messages, requests, or nothing at
all. The smallest message of a tensor in the captures has 66,304 bytes."""
QUANTILES = (0.1, 0.5, 0.9)

TUPLE = ["src", "dst", "src_port", "dst_port", "protocol"]
CARRIED = ["bytes", "payload", "packets"]

LITTLE = 0.1
"""A pair that carries less than this share of what its job's busiest pair of the kind does was
only set up (or given the first parameters): it is no part of the ring."""

DATA, CONTROL, BARE = "with data", "control", "bare"
ROLES = ("pp", "dp, with data", "dp, against data", "other")
"""What a directed pair of ranks is to its job."""


@dataclass(frozen=True)
class Observation:
    """Records of a world, and as much of the truth as a comparison needs.

    Attributes
    ----------
    flows : records of the shortest idle gap, as :func:`read` prepares them.
    steps : steps of each job.
    period_s : mean time from the start of a step to that of the next, by job [s].
    """

    flows: pd.DataFrame
    steps: dict[str, int]
    period_s: dict[str, float]


def read(run: Run, flows: Path | None = None) -> Observation:
    """Records of ``run``, with ends named by job and rank; ``flows``: another flow table."""
    frame = pd.read_parquet(flows or run.flows).astype({"src": str, "dst": str})
    ranks = run.truth("ranks")
    names = dict(zip(ranks["address"], ranks["job"] + ranks["rank"].astype(str), strict=True))
    frame["job"] = frame["src"].map(dict(zip(ranks["address"], ranks["job"], strict=True)))
    frame["pair"] = frame["src"].map(names) + "-" + frame["dst"].map(names)
    frame["role"] = _roles(frame, run.truth("pairs"))
    steps = run.truth("steps").sort_values(["job", "rank", "step"])
    steps["period"] = -steps.groupby(["job", "rank"])["start_ns"].diff(-1) * 1e-9
    by_job = {str(job): own for job, own in steps.groupby("job")}
    return Observation(
        frame,
        {job: int(own["step"].nunique()) for job, own in by_job.items()},
        {job: float(own["period"].mean()) for job, own in by_job.items()},
    )


def _roles(frame: pd.DataFrame, pairs: pd.DataFrame) -> pd.Series:
    """Role of each record's pair: by the truth, and by whether the pair moves tensors at all."""
    kinds = pairs[pairs["kind"] != "other"].groupby(["job", "src", "dst"])["kind"].first()
    total = frame.groupby(["src", "dst"])["payload"].sum()
    sent = kinds.reset_index().assign(
        total=lambda p: total.reindex(pd.MultiIndex.from_frame(p[["src", "dst"]])).to_numpy()
    )
    most = sent.groupby(["job", "kind"])["total"].transform("max")
    moving = sent[sent["total"] > most * LITTLE]
    role = {
        (p.src, p.dst): "pp" if p.kind == "pp" else "dp, with data" for p in moving.itertuples()
    }
    back = {(b, a): "dp, against data" for (a, b), what in role.items() if what != "pp"}
    found = pd.MultiIndex.from_frame(frame[["src", "dst"]]).map(back | role)
    return pd.Series(found, frame.index).fillna(ROLES[3])


def coarser(flows: pd.DataFrame, gap_ns: float) -> pd.DataFrame:
    """``flows`` as they would be, had records ended only at silence of more than ``gap_ns``.

    The records must have been cut by silence alone, of at most ``gap_ns``.
    """
    ordered = flows.sort_values([*TUPLE, "start_ns"], kind="stable").reset_index(drop=True)
    same = (ordered[TUPLE] == ordered[TUPLE].shift()).all(axis=1)
    silence = ordered["start_ns"] - ordered.groupby(TUPLE)["end_ns"].cummax().shift()
    record = (~same | (silence > gap_ns)).cumsum().rename("record")
    rest = [name for name in ordered if name not in (*CARRIED, "start_ns", "end_ns")]
    how = dict.fromkeys(rest, "first") | dict.fromkeys(CARRIED, "sum")
    merged = ordered.groupby(record).agg(how | {"start_ns": "min", "end_ns": "max"})
    return merged[list(flows.columns)].reset_index(drop=True)


def content(flows: pd.DataFrame) -> pd.Series:
    """Of each record, whether it holds tensor data, control messages only, or no payload at all."""
    payload = flows["payload"]
    kinds = np.select([payload >= SMALL_BYTES, payload > 0], [DATA, CONTROL], BARE)
    return pd.Series(kinds, flows.index)


def counts(flows: pd.DataFrame) -> dict[str, float]:
    """Records in all and of each content, and the share of small ones."""
    of = content(flows).value_counts()
    found = {name: float(of.get(name, 0)) for name in (DATA, CONTROL, BARE)}
    small = (found[CONTROL] + found[BARE]) / len(flows)
    return {"records": float(len(flows)), **found, "share small": small}


def sizes(flows: pd.DataFrame) -> dict[str, float]:
    """Quantiles of the payload of records with data [bytes]."""
    return _quantiles(_data(flows)["payload"])


def durations(flows: pd.DataFrame) -> dict[str, float]:
    """Quantiles of how long records with data last [ms]."""
    data = _data(flows)
    return _quantiles((data["end_ns"] - data["start_ns"]) * 1e-6)


def by_pair(observation: Observation, flows: pd.DataFrame) -> pd.DataFrame:
    """Records, payload and bytes a step of every pair that trains, by role and pair."""
    training = flows[flows["role"] != ROLES[3]]
    found = training.groupby(["role", "pair", "job"], as_index=False).agg(
        records=("payload", "size"), payload=("payload", "sum"), bytes=("bytes", "sum")
    )
    steps = found["job"].map(observation.steps)
    for name in ("records", "payload", "bytes"):
        found[name] = found[name] / steps
    return found.drop(columns="job").set_index(["role", "pair"])


def relative_error(twin: float, real: float) -> float:
    """How much more the twin has, as a fraction of the real value.

    >>> relative_error(11.0, 10.0)
    0.1
    """
    return (twin - real) / real


def mean_of(many: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean of each figure over several runs.

    >>> mean_of([{"a": 1.0}, {"a": 2.0}])
    {'a': 1.5}
    """
    return {name: float(np.mean([one[name] for one in many])) for name in many[0]}


def _data(flows: pd.DataFrame) -> pd.DataFrame:
    return flows[flows["payload"] >= SMALL_BYTES]


def _quantiles(values: pd.Series) -> dict[str, float]:
    return {f"{q:.0%}": float(values.quantile(q)) for q in QUANTILES}
