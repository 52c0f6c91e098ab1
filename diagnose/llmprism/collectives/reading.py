"""Reading what libraries write: NCCL and RCCL Inspector, PyTorch's flight recorder, any table.

A line of JSON is one operation of one rank. Its header names the communicator, and its metadata the
process and the time of the dump. Since format v4.3 both stand once, in a line that says how many
lines after it belong to it and how many records a ring buffer lost. Prometheus files have means of
many operations, without serial numbers in newer versions. A dump of the flight recorder has the
groups of its rank, and its last operations. What cannot be read is counted by reason.
"""

from __future__ import annotations

import gzip
import re
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

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
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
OURS = ("communicator", "rank", "ranks", "nodes", "host", "process", "operation", "number",
        "peer", "bytes", "exec_us", "end_us")  # fmt: skip
"""Columns of a table; those after ``operation`` may be missing, but not ``exec_us``."""
_NEEDED = ("communicator", "rank", "ranks", "host", "process", "operation", "exec_us")
NO_JSON, NO_HEAD, NO_OPERATION, IMPOSSIBLE, OPEN, NOT_TIMED = (
    "lines that are no JSON", "records without a header", "lines of another kind",
    "records with impossible values",
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


def read(inputs: Sequence[str], mapping: Mapping[str, str]) -> Records:
    """Read files, and all files of folders.

    Raises
    ------
    UserError : a file cannot be read, or has nothing of a library.
    """
    into = Reader()
    paths = [path for name in inputs for path in files_of(Path(name))]
    for path in paths:
        try:
            before = len(into.rows) + len(into.found.folders)
            into.read(path, mapping)
        except OSError as error:
            how = "name a file or a folder of records"
            raise UserError(Problem(error.strerror or str(error), str(path), how)) from error
        except (pa.ArrowInvalid, EOFError, DumpError) as error:
            raise UserError(Problem(f"the file is broken: {error}", str(path))) from error
        if len(paths) == 1 and len(into.rows) + len(into.found.folders) == before:
            raise _nothing(into.found.set_aside, str(path))
    found = into.result()
    if not len(found.rows) + len(found.folders):
        raise _nothing(found.set_aside, " ".join(inputs))
    return found


def _nothing(reasons: Counter[str], where: str) -> UserError:
    counted = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
    what = f"no record of a collective ({counted or 'it is empty'})"
    return UserError(Problem(what, where, "name the files of NCCL Inspector, or use --map"))


def files_of(path: Path) -> list[Path]:
    """A file, or all files in a folder, in the order of their names."""
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.rglob("*") if one.is_file())
    return [one for one in found if not one.name.startswith(".")]


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
        self._tables: dict[str, list[Any]] = {
            "process": self.found.processes,
            "communicator": self.found.communicators,
            "operation": self.found.operations,
        }
        self._heads: dict[tuple[object, ...], tuple[int, int, int]] = {}
        self._dropped: dict[tuple[object, ...], int] = {}
        self._marked: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._left = 0

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

    def read(self, path: Path, mapping: Mapping[str, str]) -> None:
        """Read one file, whatever its format."""
        with path.open("rb") as stream:
            head = stream.read(4096)
        if head[:2] == b"\x1f\x8b":
            with gzip.open(path) as unpacked:
                self._lines(unpacked)
        elif head[:4] == b"PAR1":
            self._table(pq.ParquetFile(path).iter_batches(), mapping, path)
        elif looks_like_dump(path):
            self._dumps(path)
        elif head.lstrip()[:1] in (b"{", b"#") or head.startswith(b"nccl_") or not mapping:
            with path.open("rb") as stream:
                self._lines(stream)
        else:
            self._table(pyarrow.csv.open_csv(path), mapping, path)

    def _lines(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._marked, self._left = None, 0
        for text in lines(cast(IO[bytes], stream)):
            self._line(text)

    def read_on(self, path: Path, place: Place, until_s: float) -> Place:
        """Read the whole lines behind a place, up to a time of the steady clock; where that is."""
        offset, self._marked, self._left = place
        with path.open("rb") as stream:
            stream.seek(offset)
            for text in lines(stream):
                if text is not None and not text.endswith(b"\n"):
                    break  # it is still being written
                self._line(text)
                offset = stream.tell()
                if time.monotonic() > until_s:
                    break
        return Place(offset, self._marked, self._left)

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
        except (ValueError, struct.error, TypeError, AttributeError, KeyError) as error:
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
        self._add(header, metadata, fields, kind, end_us)

    def _add(
        self, header: dict[str, Any], metadata: dict[str, Any], fields: dict[str, Any], kind: str,
        end_us: int = 0,
    ) -> None:  # fmt: skip
        """Add an operation, whose fields have the names of the Inspector."""
        self.rows += _ROW.pack(
            *self._head(header, metadata), self._code("operation", fields[kind]),
            fields.get(f"{kind}_sn", -1), fields.get("p2p_peer", -1),
            fields.get(f"{kind}_msg_size_bytes", 0), fields[f"{kind}_exec_time_us"], end_us,
        )  # fmt: skip

    def _dumps(self, path: Path) -> None:
        """The groups and the timed operations of each rank whose dump is in a file."""
        folder = path.name if has_all_ranks(path) else path.absolute().parent.name
        self.found.folders.add(folder)
        for dump in read_dumps(path):
            metadata = {"hostname": folder, "pid": dump.rank}
            headers = {
                group: {"id": f"{folder}:{group}", "rank": ranks.index(dump.rank),
                        "n_ranks": len(ranks), "comm_name": dump.names[group]}
                for group, ranks in dump.members.items() if dump.rank in ranks
            }  # fmt: skip
            for header in headers.values():
                self._head(header, metadata)
            for call in dump.calls:
                if not call.done or call.exec_us is None or call.group not in headers:
                    reason = NO_HEAD if call.group not in headers else NOT_TIMED
                    self.found.set_aside[reason if call.done else OPEN] += 1
                    continue
                name, peer = call.pair or (call.operation, -1)
                kind = "coll" if call.pair is None else "p2p"
                self.found.exact_ends = False
                self._add(headers[call.group], metadata, {
                    kind: name.removesuffix("_base").replace("_", ""), "p2p_peer": peer,
                    f"{kind}_msg_size_bytes": call.size_bytes, "coll_sn": call.number,
                    f"{kind}_exec_time_us": call.exec_us,
                }, kind, call.created_us + round(call.exec_us))  # fmt: skip

    def _head(self, header: dict[str, Any], metadata: dict[str, Any]) -> tuple[int, int, int]:
        """Process, communicator and place in it of a record."""
        host, pid = metadata.get("hostname"), metadata.get("pid")
        key = (header["id"], header["rank"], header["n_ranks"], host, pid)
        found = self._heads.get(key)
        if found is None:
            ranks, nodes = int(header["n_ranks"]), int(header.get("nnodes", -1))
            name = str(header.get("comm_name", "unknown"))
            communicator = Communicator(str(header["id"]), ranks, nodes, name)
            found = self._heads[key] = (
                self._code("process", Process(str(host), str(pid))),
                self._code("communicator", communicator),
                int(header["rank"]),
            )
        return found

    def _code(self, kind: str, value: Any) -> int:
        """The number of a value of one kind; a new one for a new value."""
        code = self._codes.get((kind, value))
        if code is None:
            table = self._tables[kind]
            code = self._codes[kind, value] = len(table)
            table.append(str(value) if kind == "operation" else value)
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
            self._row({
                "communicator": fields.get("comm_id", f"{job} {name} of {ranks}"), "ranks": ranks,
                "rank": fields.get("rank", "-1"), "nodes": fields.get("n_nodes", "-1"),
                "name": name, "host": fields.get("hostname", fields["node"]),
                "process": fields["gpu"], "exec_us": float(match[3]), "end_us": 0,
                "operation": fields.get("collective", fields.get("p2p_operation", "unknown")),
                "number": int(fields.get("coll_sn", 0)), "peer": -("collective" in fields),
                "bytes": _bytes(fields.get("message_size", "0")),
            })  # fmt: skip
        except ValueError:
            self.found.set_aside[IMPOSSIBLE] += 1

    def _table(
        self, batches: Iterator[pa.RecordBatch], mapping: Mapping[str, str], path: Path
    ) -> None:
        """Rows of a table whose columns ``mapping`` names."""
        for batch in batches:
            theirs = {ours: mapping.get(ours, ours) for ours in OURS}
            absent = [ours for ours in _NEEDED if theirs[ours] not in batch.schema.names]
            if absent:
                what = f"the table has no column for {', '.join(absent)}"
                raise UserError(Problem(what, str(path), "name them: --map OURS=THEIRS,..."))
            columns = {
                ours: batch.column(name).to_pylist() if name in batch.schema.names else None
                for ours, name in theirs.items()
            }
            for row in range(batch.num_rows):
                self._row({ours: one[row] for ours, one in columns.items() if one is not None})

    def _row(self, fields: dict[str, Any]) -> None:
        header = {"id": fields["communicator"], "rank": fields["rank"], "n_ranks": fields["ranks"]}
        header |= {"nnodes": fields.get("nodes", -1), "comm_name": fields.get("name", "unknown")}
        metadata = {"hostname": fields["host"], "pid": fields["process"]}
        self.found.exact_ends &= "end_us" in fields
        try:
            self._add(header, metadata, {
                "coll": fields["operation"], "coll_sn": fields.get("number", -1),
                "p2p_peer": fields.get("peer", -1), "coll_msg_size_bytes": fields.get("bytes", 0),
                "coll_exec_time_us": fields["exec_us"],
            }, "coll", fields.get("end_us", 0))  # fmt: skip
        except (ValueError, TypeError, struct.error):
            self.found.set_aside[IMPOSSIBLE] += 1


def _bytes(text: str) -> int:
    """The lower end of a range of sizes.

    >>> _bytes("4-5GB"), _bytes("65536")
    (4294967296, 65536)
    """
    match = re.fullmatch(r"(\d+)(?:-\d+)?([KMGT]?B)?", text)
    if match is None:
        raise ValueError(f"{text!r} is no size")
    return int(match[1]) * _UNITS[match[2] or "B"]
