"""What the communication library of each process records of its operations.

NCCL and RCCL have a plugin, the Inspector, that records every operation of a process: the
communicator, a serial number, the size, and how long the operation ran. A thread of the process
writes the records to its file from time to time. All ranks of a communicator end a collective
together, so the rank that joins last has the shortest time.

A record follows from the truth. A kernel runs from the time when its rank joins, or its last
collective on the same communicator ends, to the end of the collective. A message runs at its
sender while it is on the wire; at its receiver, from the end of the pass before the one that needs
it, when the receive is posted.

Reference: NVIDIA/nccl, plugins/profiler/inspector (README and JSON writer, format v4.0; dumps with
a header since v4.3); docs/collectives.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from prism_sim.collector.inspector import Inspector, write_process
from prism_sim.draws import Draws

Ints = NDArray[np.int64]
OPERATIONS = {
    "all_reduce": "AllReduce",
    "reduce_scatter": "ReduceScatter",
    "all_gather": "AllGather",
    "dispatch": "AlltoAll",
    "combine": "AlltoAll",
    "kv_ring": "AllGather",
}
"""What the library calls each collective, by its kind of span without the label of its group."""
GROUPS = {"tp": "TP", "other": "MP", "expert": "EXPERT_DP", "dispatch": "EP", "combine": "EP"}
GROUPS |= {"kv": "CP"}
"""Names of communicators by the first word of the kind; all others are DP."""
PASSES = ("fwd", "bwd", "wgrad", "opt", "eval_fwd")
NEEDS = {"fwd": "recv_act", "eval_fwd": "recv_act", "bwd": "recv_grad"}
"""The message that each kind of pass needs from another stage."""
MESSAGES = {"send_act": "Send", "send_grad": "Send", "recv_act": "Recv", "recv_grad": "Recv"}


@dataclass(frozen=True)
class LoggedJob:
    """What records of one job need beside the truth tables.

    Attributes
    ----------
    ranks : the truth table of its ranks.
    message_bytes : size of a pipeline message at one rank; 0 if unknown.
    attempts : number of the first step of each attempt.
    """

    ranks: pd.DataFrame
    message_bytes: int
    attempts: tuple[int, ...] = (0,)


def write_collectives(
    options: Inspector,
    jobs: Mapping[str, LoggedJob],
    spans: Path,
    sizes: tuple[Ints, Ints],
    draws: Draws,
    folder: Path,
) -> int:
    """Write the files of all processes into ``folder``; returns the number of records.

    ``spans`` is the truth table of spans, and ``sizes`` has the first number of each collective,
    in order, and its size.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for name, job in jobs.items():
        if options.jobs is not None and name not in options.jobs:
            continue
        columns = ["rank", "step", "micro_batch", "kind", "communication", "start_ns", "end_ns"]
        table = pq.read_table(spans, columns=columns, filters=[("job", "==", name)]).to_pandas()
        table["kind"] = table["kind"].astype(str)
        table["attempt"] = np.searchsorted(job.attempts, table["step"], side="right") - 1
        records = _collectives(table, sizes, name, draws, options)
        if options.messages and job.message_bytes:
            records = pd.concat([records, _messages(table, job, name, draws)], ignore_index=True)
        records = records[records["size"] >= options.min_bytes]
        home = dict(zip(job.ranks["rank"].tolist(), job.ranks["server"].tolist(), strict=True))
        gpu = dict(zip(job.ranks["rank"].tolist(), job.ranks["gpu"].tolist(), strict=True))
        records["server"] = records["rank"].map(home)
        records["nodes"] = records.groupby("id")["server"].transform("nunique")
        records = records[records["rank"] % options.one_in == 0]
        for _, rows in records.groupby(["rank", "attempt"], sort=True):
            rank, attempt = int(rows["rank"].iloc[0]), int(rows["attempt"].iloc[0])
            first = draws.number("processes", home[rank], attempt) % 10_000
            pid = 64 * (first + 1) + gpu[rank]  # processes of a server start in order
            written += write_process(folder, options, rows, (home[rank], pid), draws)
    return written


def _collectives(
    table: pd.DataFrame, sizes: tuple[Ints, Ints], job: str, draws: Draws, options: Inspector
) -> pd.DataFrame:
    """A row for each rank of each collective: its communicator, number, size, begin and end."""
    known = table["communication"].notna() & ~table["kind"].isin(MESSAGES)
    rows = table[known].astype({"communication": "int64"})
    operation = rows["kind"].str.replace(r"^(tp|other|expert)_", "", regex=True)
    rows = rows.assign(coll=operation.map(OPERATIONS))[operation.isin(list(OPERATIONS))]
    rows = rows.drop_duplicates(["communication", "rank"])  # its phases come after the whole
    place = np.searchsorted(sizes[0], rows["communication"], side="right") - 1
    rows["size"] = sizes[1][np.maximum(place, 0)] if len(sizes[1]) else 0
    rows["group"] = rows["kind"].str.split("_").str[0].map(GROUPS).fillna("DP")
    rows = rows.sort_values(["communication", "rank"], ignore_index=True)
    first = np.flatnonzero(np.diff(rows["communication"], prepend=-1))
    members = np.split(rows["rank"].to_numpy(), first[1:]) if len(rows) else []
    count = np.array([len(one) for one in members], np.int64)
    heads = zip(rows["group"].iloc[first], rows["attempt"].iloc[first], members, strict=True)
    names = [(group, int(attempt), *ranks.tolist()) for group, attempt, ranks in heads]
    ids = {one: draws.number("communicator", job, *one) for one in dict.fromkeys(names)}
    rows["id"] = np.repeat(np.array([ids[one] for one in names], np.uint64), count)
    rows["name"] = rows["group"] + " Group " + _numbered(rows["id"], rows["group"]).astype(str)
    rows["n_ranks"] = np.repeat(count, count)
    rows["place"] = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    rows["peer"] = -1
    calls = rows.drop_duplicates("communication").sort_values(["end_ns", "communication"])
    serial = calls.groupby(["id", "coll"]).cumcount()
    number = dict(zip(calls["communication"], serial, strict=True))
    rows["sn"] = rows["communication"].map(number).astype(np.int64)
    rows["called_ns"] = rows["start_ns"]
    return rows if options.timing == "collective_cpu" else _one_after_another(rows, ["id", "rank"])


def _numbered(ids: pd.Series, group: pd.Series) -> NDArray[np.int64]:
    """The number of each communicator among those of its group."""
    heads = pd.DataFrame({"id": ids, "group": group}).drop_duplicates("id")
    number = dict(zip(heads["id"], heads.groupby("group").cumcount(), strict=True))
    return ids.map(number).to_numpy(np.int64)


def _messages(table: pd.DataFrame, job: LoggedJob, name: str, draws: Draws) -> pd.DataFrame:
    """A row for each end of each message between stages; a pipeline is one communicator."""
    rows = table[table["kind"].isin(MESSAGES)].astype({"communication": "int64"})
    axes = ["dp", "tp", "ep", "cp"]
    places = job.ranks.sort_values([*axes, "pp"]).set_index("rank")
    pipeline = places.groupby(axes).ngroup().reindex(rows["rank"]).to_numpy()
    rows = rows.assign(
        coll=rows["kind"].map(MESSAGES),
        size=job.message_bytes,
        name=[f"PP Group {number}" for number in pipeline],
        place=places["pp"].reindex(rows["rank"]).to_numpy(),
        n_ranks=int(job.ranks["pp"].nunique()),
        called_ns=rows["start_ns"],
    )
    keys = list(zip(pipeline.tolist(), rows["attempt"].tolist(), strict=True))
    ids = {key: draws.number("communicator", name, "PP", *key) for key in dict.fromkeys(keys)}
    rows["id"] = np.array([ids[key] for key in keys], np.uint64)
    ends = rows.groupby("communication")["place"]
    rows["peer"] = ends.transform("sum") - rows["place"]
    rows = rows.sort_values(["end_ns", "communication"], kind="stable", ignore_index=True)
    posted = np.fmin(_posted_ns(table, rows), rows["start_ns"]).astype(np.int64)
    rows["start_ns"] = np.where(rows["coll"] == "Recv", posted, rows["start_ns"])
    rows["sn"] = rows.groupby(["id", "rank"]).cumcount() + 1
    return _one_after_another(rows, ["id", "rank", "coll"])


def _posted_ns(table: pd.DataFrame, rows: pd.DataFrame) -> pd.Series:
    """When the pass before that which needs each message ended; NaN if none needs it.

    ``rows`` are messages in order of their ends.
    """
    passes = table[table["kind"].isin(PASSES)].sort_values(["rank", "start_ns"])
    passes["before_ns"] = passes.groupby("rank")["end_ns"].shift()
    passes["kind"] = passes["kind"].map(NEEDS)
    key = ["rank", "step", "micro_batch", "kind"]
    needing = passes.dropna(subset=["kind"])[[*key, "start_ns", "before_ns"]]
    needing = needing.sort_values("start_ns").rename(columns={"start_ns": "end_ns"})
    needed = pd.merge_asof(rows[[*key, "end_ns"]], needing, on="end_ns", by=key,
                           direction="forward")  # fmt: skip
    return needed["before_ns"]


def _one_after_another(rows: pd.DataFrame, stream: list[str]) -> pd.DataFrame:
    """``rows`` that begin no earlier than the last one on the same stream of a rank ended."""
    rows = rows.sort_values("end_ns", kind="stable")
    before = rows.groupby(stream)["end_ns"].shift().fillna(0).astype(np.int64)
    return rows.assign(start_ns=np.maximum(rows["start_ns"], before))
