"""Reading what libraries write: NCCL and RCCL Inspector, PyTorch's flight recorder, any table.

A line of JSON is one operation of one rank. Its header names the communicator, and its metadata the
process and the time of the dump. Since format v4.3 both stand once, in a line that says how many
lines after it belong to it and how many records a ring buffer lost. Prometheus files have means of
many operations, without serial numbers in newer versions. A dump of the flight recorder has the
groups of its rank, and its last operations. What cannot be read is counted by reason.
"""

from __future__ import annotations

import math
import re
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from llmprism.ingest.sources import BROKEN, find
from llmprism.ingest.sources import Source as File
from prism_common.errors import Problem, UserError
from prism_common.recorder import DumpError, has_all_ranks, looks_like_dump, read_dumps
from prism_common.untrusted import lines, parsed

_FIELDS = [
    ("process", "i4"), ("communicator", "i4"), ("place", "i4"), ("operation", "i2"),
    ("number", "i4"), ("peer", "i4"), ("size_bytes", "i8"), ("exec_us", "f4"), ("end_us", "i8"),
]  # fmt: skip
ROW = np.dtype(_FIELDS)
_ROW = struct.Struct("=iiihiiqfq")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SAMPLE = re.compile(r"(nccl_\w+)\{(.*)\}\s+(\S+)")
_IMPOSSIBLE = (ValueError, TypeError, OverflowError)
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
NEEDED = ("communicator", "rank", "ranks", "host", "process", "operation", "exec_us")
OTHERWISE: dict[str, Any] = {
    "nodes": -1, "name": "unknown", "number": -1, "peer": -1, "bytes": 0, "end_us": 0,
    "exact": True,
}  # fmt: skip
"""Columns of a table, and those that it may lack with the value that they have then."""
_HEAD = ["communicator", "rank", "ranks", "nodes", "name", "host", "process"]
_FIGURES = {"number": "number", "peer": "peer", "size_bytes": "bytes", "exec_us": "exec_us",
            "end_us": "end_us"}  # fmt: skip
BROKEN_FILE, NO_JSON, NO_HEAD, NO_OPERATION, IMPOSSIBLE, OPEN, NOT_TIMED = (
    "files that are broken", "lines that are no JSON", "records without a header",
    "lines of another kind", "records with impossible values",
    "operations that are not completed (llmlog names the rank that they wait for)",
    "operations without a duration (PyTorch records it with TORCH_NCCL_ENABLE_TIMING=1)",
)  # fmt: skip


class Process(NamedTuple):
    """A process: its host, and its number there (or the GPU that it has)."""

    host: str
    pid: str

    @property
    def order(self) -> tuple[str, int, str]:
        return self.host, int(self.pid) if self.pid.isdigit() else 0, self.pid


class Communicator(NamedTuple):
    """A communicator: its name in the records, and what they say of it."""

    ident: str
    ranks: int
    nodes: int
    name: str


@dataclass
class Records:
    """Operations of all processes, in the order of their files.

    Attributes
    ----------
    rows : of type :data:`ROW`; a time of execution and of the end [us], by the clock of the host.
        A number is that of the operation in its communicator; a peer of -1 is a collective.
    processes, communicators, operations : what the codes of rows mean.
    members : codes of process and communicator, and place in it, shape (members, 3).
    folders : of dumps, which name no host: hosts of processes whose number is their rank.
    set_aside : lines that are not in the rows, by reason.
    lost : records that ring buffers have lost, as their processes say.
    exact_ends : whether ends are those of kernels; else they are the times of dumps.
    """

    rows: NDArray[Any] = field(default_factory=lambda: np.zeros(0, ROW))
    processes: list[Process] = field(default_factory=list)
    communicators: list[Communicator] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    members: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    folders: set[str] = field(default_factory=set)
    set_aside: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    exact_ends: bool = True

    def table(self) -> pa.Table:
        """The rows as a table that :meth:`Reader.add` takes."""
        of_each = (("communicator", self.communicators, ("communicator", "ranks", "nodes", "name")),
                   ("process", self.processes, ("host", "process")))  # fmt: skip
        columns = {
            name: self.named(kind, [one[at] for one in every])
            for kind, every, names in of_each for at, name in enumerate(names)
        }  # fmt: skip
        columns |= {ours: pa.array(self.rows[name]) for name, ours in _FIGURES.items()}
        columns["operation"] = self.named("operation", self.operations)
        exact = pa.repeat(self.exact_ends, len(self.rows))
        return pa.table({**columns, "rank": self.rows["place"], "exact": exact})

    def named(self, kind: str, values: Sequence[object]) -> pa.Array:
        """Of each row, the value of its process, communicator or operation, as text."""
        return pa.array([*map(str, values)], pa.string()).take(pa.array(self.rows[kind]))


def read(inputs: Sequence[str], mapping: Mapping[str, str]) -> Records:
    """Read files, and all files of folders.

    Raises
    ------
    UserError : a file cannot be read, or has nothing of a library.
    """
    into, files = Reader(), find(inputs)
    for file in files:
        try:
            into.read(file, mapping)
        except (*BROKEN, DumpError) as error:
            if len(files) == 1:
                raise UserError(Problem(f"the file is broken: {error}", str(file))) from error
            into.found.set_aside[BROKEN_FILE] += 1
    found = into.result()
    if not len(found.rows) + len(found.folders):
        counted = ", ".join(f"{count:,} {reason}" for reason, count in found.set_aside.items())
        what = f"no record of a collective ({counted or 'it is empty'})"
        how = "name the files of NCCL Inspector, or use --map"
        raise UserError(Problem(what, " ".join(inputs), how))
    return found


class Place(NamedTuple):
    """A place in a file [bytes]: the head whose records follow there, and how many do."""

    offset: int = 0
    marked: tuple[dict[str, Any], dict[str, Any]] | None = None
    left: int = 0


class Reader:
    """Collects rows, and gives processes, communicators and operations their codes."""

    def __init__(self) -> None:
        self.found = Records()
        self.rows = bytearray()
        self._codes: dict[object, int] = {}
        self._heads: dict[tuple[object, ...], tuple[int, int, int]] = {}
        self._marked: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._left = 0
        self._dropped: dict[tuple[object, ...], int] = {}
        self._samples: list[dict[str, Any]] = []

    def result(self) -> Records:
        """All records, without those whose values are impossible."""
        rows = np.frombuffer(self.rows, ROW)
        good = np.isfinite(rows["exec_us"]) & (rows["exec_us"] >= 0) & (rows["size_bytes"] >= 0)
        good &= rows["end_us"] >= 0
        if not good.all():
            self.found.set_aside[IMPOSSIBLE] += int((~good).sum())
            rows = rows[good]
        self.found.rows, self.found.lost = rows, sum(self._dropped.values())
        self.found.members = np.unique(np.array([*self._heads.values()]).reshape(-1, 3), axis=0)
        return self.found

    def read(self, file: File, mapping: Mapping[str, str]) -> None:
        """Read one file, whatever its format."""
        head, path = file.head, file.path
        if head[:4] == b"PAR1":
            self._table(pq.ParquetFile(path).iter_batches(), mapping, path)
        elif looks_like_dump(path):
            self._dumps(path)
        elif head.lstrip()[:1] in (b"{", b"#") or head.startswith(b"nccl_") or not mapping:
            with file.open() as stream:
                self.read_on(stream, Place(), math.inf, is_whole=True)
        else:
            with file.open() as stream:
                self._table(pyarrow.csv.open_csv(stream), mapping, path)
        if self._samples:
            self.add(pd.DataFrame(self._samples))
            self._samples = []

    def read_on(
        self, stream: IO[bytes], place: Place, until_s: float, *, is_whole: bool = False
    ) -> Place:
        """Read the lines behind a place, up to a time of the steady clock; return where that is.

        A last line without an end is still being written, unless the file ``is_whole``.
        """
        offset, self._marked, self._left = place
        stream.seek(offset)
        with suppress(*([] if is_whole else [EOFError])):  # what compresses it goes on
            for text in lines(stream):
                if not (is_whole or text is None or text.endswith(b"\n")):
                    break
                self._line(text)
                offset = stream.tell()
                if time.monotonic() > until_s:
                    break
        return Place(offset, self._marked if self._left else None, self._left)

    def _line(self, text: bytes | None) -> None:
        """One line; None if it was too long."""
        if text is None or not text.startswith(b"{"):
            if text is not None and text.startswith(b"nccl_"):
                self._sample(text.decode("utf-8", "replace"))
            elif text is None or (text.strip() and not text.startswith(b"#")):
                self.found.set_aside[NO_JSON] += 1
            return
        try:
            self._object(parsed(text))
        except (*_IMPOSSIBLE, struct.error, AttributeError, KeyError) as error:
            reason = NO_JSON if isinstance(error, ValueError) else IMPOSSIBLE
            self.found.set_aside[reason] += 1
            self._left -= self._left > 0

    def _object(self, line: dict[str, Any]) -> None:
        """One line of JSON: an operation, or the head of those that follow."""
        if "dump_stats" in line:
            stats, head = line["dump_stats"], (line["header"], line["metadata"])
            self._marked = head
            kinds = ("coll", "p2p", "proxy")
            self._left = sum(int(stats.get(f"{kind}_records", 0)) for kind in kinds)
            key = (head[0]["id"], head[0]["rank"], head[1].get("hostname"), head[1].get("pid"))
            self._dropped[key] = sum(int(stats.get(f"{kind}_dropped_total", 0)) for kind in kinds)
            return
        kind = next((kind for kind in ("coll", "p2p") if f"{kind}_perf" in line), None)
        if "header" in line or "id" in line:
            header, metadata = line.get("header", line), line.get("metadata", line)
        elif self._marked is not None and self._left > 0:
            (header, metadata), self._left = self._marked, self._left - 1
        else:
            self.found.set_aside[NO_OPERATION if kind is None else NO_HEAD] += 1
            return
        if kind is None:
            self.found.set_aside[NO_OPERATION] += 1
            return
        fields = line[f"{kind}_perf"]
        events = fields.get("event_trace_ts", {}).get("kernel_events")
        if events:
            end_us = max(event["kernel_stop_ts"] for event in events)
        else:
            end_us, self.found.exact_ends = metadata.get("dump_timestamp_us", 0), False
        place = self._head(
            header["id"], header["rank"], header["n_ranks"], header.get("nnodes", -1),
            header.get("comm_name", "unknown"), metadata.get("hostname"), metadata.get("pid"),
        )  # fmt: skip
        self.rows += _ROW.pack(
            *place, self._code(self.found.operations, str(fields[kind])),
            fields.get(f"{kind}_sn", -1), fields.get("p2p_peer", -1),
            fields.get(f"{kind}_msg_size_bytes", 0), fields[f"{kind}_exec_time_us"], end_us,
        )  # fmt: skip

    def _dumps(self, path: Path) -> None:
        """The groups and the timed operations of each rank whose dump is in a file."""
        folder = path.name if has_all_ranks(path) else path.absolute().parent.name
        self.found.folders.add(folder)
        for dump in read_dumps(path):
            heads = {
                group: (f"{folder}:{group}", ranks.index(dump.rank), len(ranks), -1,
                        dump.names[group], folder, dump.rank)
                for group, ranks in dump.members.items() if dump.rank in ranks
            }  # fmt: skip
            for head in heads.values():
                self._head(*head)
            for call in dump.calls:
                if not call.done or call.exec_us is None or call.group not in heads:
                    reason = NO_HEAD if call.group not in heads else NOT_TIMED
                    self.found.set_aside[reason if call.done else OPEN] += 1
                    continue
                name, peer = call.pair or (call.operation, -1)
                self._samples.append({
                    **dict(zip(_HEAD, heads[call.group], strict=True)),
                    "operation": name.removesuffix("_base").replace("_", ""), "peer": peer,
                    "number": call.number if call.pair is None else -1, "bytes": call.size_bytes,
                    "exec_us": call.exec_us, "end_us": call.created_us + round(call.exec_us),
                })  # fmt: skip

    def _head(self, *head: Any) -> tuple[int, int, int]:
        """Process, communicator and place in it of a record, whose columns ``_HEAD`` are given."""
        found = self._heads.get(head)
        if found is None:
            ident, *numbers, name, host, pid = head
            rank, ranks, nodes = (int(np.int32(int(one))) for one in numbers)
            communicator = Communicator(str(ident), ranks, nodes, str(name))
            found = self._heads[head] = (
                self._code(self.found.processes, Process(str(host), str(pid))),
                self._code(self.found.communicators, communicator),
                rank,
            )
        return found

    def _code(self, table: list[Any], value: object) -> int:
        """The place of a value in the table of its kind; a new one for a new value."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(table)
            table.append(value)
        return code

    def _sample(self, text: str) -> None:
        """A line of a Prometheus file: the mean time of a kind of operation at one GPU."""
        match = _SAMPLE.match(text)
        if match is None or not match[1].endswith("exec_time_microseconds"):
            self.found.set_aside[NO_OPERATION] += 1
            return
        fields: dict[str, str] = dict(_LABEL.findall(match[2]))
        fields = {"node": "", "gpu": fields.get("rank", "")} | fields
        job, name = fields.get("slurm_job_id", ""), fields.get("comm_name", "unknown")
        ranks = fields.get("nranks", fields.get("n_ranks", "0"))
        try:
            self._samples.append({
                "communicator": fields.get("comm_id", f"{job} {name} of {ranks}"), "ranks": ranks,
                "rank": fields.get("rank", "-1"), "nodes": fields.get("n_nodes", "-1"),
                "name": name, "host": fields.get("hostname", fields["node"]),
                "process": fields["gpu"], "exec_us": match[3], "exact": False,
                "operation": fields.get("collective", fields.get("p2p_operation", "unknown")),
                "number": fields.get("coll_sn", "0"), "peer": -("collective" in fields),
                "bytes": _bytes(fields.get("message_size", "0")),
            })  # fmt: skip
        except ValueError:
            self.found.set_aside[IMPOSSIBLE] += 1

    def _table(
        self, batches: Iterator[pa.RecordBatch], mapping: Mapping[str, str], path: Path
    ) -> None:
        """Rows of a table whose columns ``mapping`` names."""
        theirs = {ours: mapping.get(ours, ours) for ours in (*NEEDED, *OTHERWISE)}
        for batch in batches:
            absent = [ours for ours in NEEDED if theirs[ours] not in batch.schema.names]
            if absent:
                what = f"the table has no column for {', '.join(absent)}"
                raise UserError(Problem(what, str(path), "name them: --map OURS=THEIRS,..."))
            known = {ours: name for ours, name in theirs.items() if name in batch.schema.names}
            self.add(batch.select([*known.values()]).to_pandas().set_axis([*known], axis=1))

    def add(self, table: pd.DataFrame) -> None:
        """Add operations as a table with the columns above."""
        lacking = {name: value for name, value in OTHERWISE.items() if name not in table}
        table = table.assign(**lacking)
        figures = table[[*_FIGURES.values()]].apply(pd.to_numeric, errors="coerce")
        good = figures.abs().lt([float(2**31)] * 2 + [2.0**63, np.inf, 2.0**63]).all(axis=1)
        heads = table.groupby(_HEAD, sort=False, dropna=False, observed=True)
        codes = np.full((heads.ngroups, 3), -1)
        for at, own in enumerate(table.drop_duplicates(_HEAD)[_HEAD].itertuples(index=False)):
            with suppress(*_IMPOSSIBLE):
                codes[at] = self._head(*own)
        place = codes[heads.ngroup()]
        good &= place[:, 0] >= 0
        self.found.set_aside[IMPOSSIBLE] += int((~good).sum())
        self.found.exact_ends &= bool(table["exact"].all()) and "end_us" not in lacking
        rows = np.zeros(int(good.sum()), ROW)
        for name, code in zip(("process", "communicator", "place"), place[good].T, strict=True):
            rows[name] = code
        for name, column in _FIGURES.items():
            rows[name] = figures.loc[good, column]
        operation, names = pd.factorize(table.loc[good, "operation"].astype(str))
        codes = np.array([self._code(self.found.operations, one) for one in names], np.int64)
        rows["operation"] = codes[operation]
        self.rows += rows.tobytes()


def _bytes(text: str) -> int:
    """The lower end of a range of sizes.

    >>> _bytes("4-5GB"), _bytes("65536")
    (4294967296, 65536)
    """
    match = re.fullmatch(r"(\d+)(?:-\d+)?([KMGT]?B)?", text)
    if match is None:
        raise ValueError(f"{text!r} is no size")
    return int(match[1]) * _UNITS[match[2] or "B"]
