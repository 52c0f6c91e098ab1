"""Compare a real capture with its twin, the simulation of that capture.

If only silence ends records, the records of a longer idle gap are unions of those of a shorter
one. The flow table of the shortest gap therefore gives all the others. For each gap, a capture
and its twin are compared by the number and content of records, their sizes and lengths, and
their number per pair and step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from llmprism.ingest.coarser import coarser as coarser
from prism_sim.run_folder import Run

GAPS_MS = (1, 2, 5, 10)
"""Idle gaps at which the real captures were cut [ms]."""
SMALL_BYTES = 10_000
"""A record with less payload holds no part of a tensor, only control messages or requests. The
smallest message of a tensor in the captures has 66,304 bytes."""
QUANTILES = (0.1, 0.5, 0.9)

LEAST_SHARE = 0.1
"""A pair whose traffic is below this share of the traffic of its job's busiest pair of the same
kind was only set up, or only got the first parameters. It is not part of the ring."""

DATA, CONTROL, BARE = "with data", "control", "bare"
ROLES = ("pp", "dp, with data", "dp, against data", "other")
"""Roles of a directed pair of ranks in its job."""


@dataclass(frozen=True)
class Observation:
    """Records of a capture or a twin, and the part of the truth that a comparison needs.

    Attributes
    ----------
    flows : records of the shortest idle gap, as :func:`read` prepares them.
    steps : steps of each job.
    period_s : mean time from the start of a step to that of the next, by job [s].
    middle_s : the median of the same.
    """

    flows: pd.DataFrame
    steps: dict[str, int]
    period_s: dict[str, float]
    middle_s: dict[str, float] = field(default_factory=dict)


def read(run: Run, flows: Path | None = None) -> Observation:
    """Records of ``run``, with jobs and ranks as names; ``flows`` replaces the flow table."""
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
        {job: float(own["period"].median()) for job, own in by_job.items()},
    )


def _roles(frame: pd.DataFrame, pairs: pd.DataFrame) -> pd.Series:
    """Role of each record's pair: by the truth, and by whether the pair sends tensors."""
    kinds = pairs[pairs["kind"] != "other"].groupby(["job", "src", "dst"])["kind"].first()
    total = frame.groupby(["src", "dst"])["payload"].sum()
    sent = kinds.reset_index().assign(
        total=lambda p: total.reindex(pd.MultiIndex.from_frame(p[["src", "dst"]])).to_numpy()
    )
    most = sent.groupby(["job", "kind"])["total"].transform("max")
    sending = sent[sent["total"] > most * LEAST_SHARE]
    role = {
        (p.src, p.dst): "pp" if p.kind == "pp" else "dp, with data" for p in sending.itertuples()
    }
    back = {(b, a): "dp, against data" for (a, b), name in role.items() if name != "pp"}
    found = pd.MultiIndex.from_frame(frame[["src", "dst"]]).map(back | role)
    return pd.Series(found, frame.index).fillna(ROLES[3])


def content(flows: pd.DataFrame) -> pd.Series:
    """Content of each record: tensor data, control messages only, or no payload."""
    payload = flows["payload"]
    kinds = np.select([payload >= SMALL_BYTES, payload > 0], [DATA, CONTROL], BARE)
    return pd.Series(kinds, flows.index)


def counts(flows: pd.DataFrame) -> dict[str, float]:
    """Number of all records and of those of each content, and the share of small records."""
    number = content(flows).value_counts()
    found = {name: float(number.get(name, 0)) for name in (DATA, CONTROL, BARE)}
    small = (found[CONTROL] + found[BARE]) / len(flows)
    return {"records": float(len(flows)), **found, "share small": small}


def sizes(flows: pd.DataFrame) -> dict[str, float]:
    """Quantiles of the payload of records with data [bytes]."""
    return _quantiles(_data(flows)["payload"])


def durations(flows: pd.DataFrame) -> dict[str, float]:
    """Quantiles of the length of records with data [ms]."""
    data = _data(flows)
    return _quantiles((data["end_ns"] - data["start_ns"]) * 1e-6)


def by_pair(observation: Observation, flows: pd.DataFrame) -> pd.DataFrame:
    """Records, payload and bytes per step of each pair with training traffic, by role and pair."""
    training = flows[flows["role"] != ROLES[3]]
    found = training.groupby(["role", "pair", "job"], as_index=False).agg(
        records=("payload", "size"), payload=("payload", "sum"), bytes=("bytes", "sum")
    )
    steps = found["job"].map(observation.steps)
    for name in ("records", "payload", "bytes"):
        found[name] = found[name] / steps
    return found.drop(columns="job").set_index(["role", "pair"])


def relative_error(twin: float, real: float) -> float:
    """Difference between the twin and the real value, as a fraction of the real value.

    >>> relative_error(11.0, 10.0)
    0.1
    """
    return (twin - real) / real


def percent(real: float, made: float) -> str:
    """By how much the second differs from the first, as text."""
    return f"{100 * relative_error(made, real):+.1f} %"


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
