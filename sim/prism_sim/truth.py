"""The truth: the actual activity of every rank, written while the simulation runs.

Workers (tensor-parallel groups in lock-step) log one row a span; when written, a row
is repeated for each of the group's ranks. Spans are written to Parquet in batches; steps, ranks,
pairs and faults are small and written at the end.

Each kind of span is declared by its origin (a schedule, a strategy, an exchange, a habit), in
that file. ``fwd``, ``bwd`` and ``opt`` are computation (if a schedule splits the backward pass,
``bwd`` is the gradient of the input and ``wgrad`` that of the parameters); passes include the
waits inside them, such as for gathers of their parameters. A pipeline message is ``send_act`` and
``recv_act``, or ``send_grad`` and ``recv_grad``: its time on the wire, at its sender and at its
receiver. A collective lasts from the time when the rank joins to its end, including waits.

Every span of communication has the number of its *communication*: all members of one collective
call have the same number, and so have both ends of one message. Spans of computation have none.

Steps count in order of time: a step that is repeated after a restart has its own number, and a
step that a failure interrupted is in ``steps`` only for ranks that had finished it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path
from struct import Struct

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from prism_sim.run_folder import TRUTH
from prism_sim.streaming import Streaming

NO_MICRO_BATCH = -1
NO_COMMUNICATION = -1
"""The communication number of a span that only computes."""
_FIRST_COMMON = -2
"""Numbers from here down are communications that all ranks of a worker share."""

PIECE = 1 << 17
"""Number of logged spans that are written together."""

LOG_FIELDS = 7
"""Numbers in a logged span: worker, step, micro-batch, kind, communication, start and end."""
_ROW = Struct(f"={LOG_FIELDS}q")
_TWO_ROWS = Struct(f"={2 * LOG_FIELDS}q")
ROWS, CUT, COMMUNICATIONS = range(3)
"""Places in ``tally`` of :class:`LogRows`."""
NO_LIMIT = 2**62


class LogRows:
    """Spans that are not written yet, for Python and for compiled code.

    Parameters
    ----------
    limit : number of rows after which a piece is written; 0 for none.

    Attributes
    ----------
    rows : numbers of each span, shape (at least rows, LOG_FIELDS).
    tally : the number of rows, how many of them are a piece that must be written (0: none), and
        the number of communications.
    limit : shape (1,).
    """

    def __init__(self, limit: int = 0) -> None:
        self.rows = np.zeros((2 * limit or 16, LOG_FIELDS), np.int64)
        self.tally = np.zeros(3, np.int64)
        self.limit = np.full(1, limit or NO_LIMIT)

    def grow(self) -> None:
        """Double the room for rows."""
        self.rows = np.vstack((self.rows, np.zeros_like(self.rows)))

    def take(self, count: int) -> NDArray[np.int64]:
        """Remove and return the first ``count`` rows."""
        used = int(self.tally[ROWS])
        taken = self.rows[:count].copy()
        self.rows[: used - count] = self.rows[count:used].copy()
        self.tally[ROWS], self.tally[CUT] = used - count, 0
        return taken


class SpanLog(Streaming):
    """Spans of all workers, streamed to one Parquet file.

    Parameters
    ----------
    path : the file to write.
    epoch_ns : time zero of the simulation on the collector's clock.

    keeps_sizes : whether the sizes of collectives are kept, for what libraries write of them.

    Attributes
    ----------
    sizes : first number of each collective, in order, and its size at each rank [bytes].
    """

    def __init__(self, path: Path, epoch_ns: int, *, keeps_sizes: bool = False) -> None:
        self._keeps_sizes = keeps_sizes
        self.sizes = array("q"), array("q")
        self.rows = LogRows(PIECE)
        self._tally = self.rows.tally.data
        self._epoch_ns = epoch_ns
        self._job_of: list[int] = []
        self._first_rank: list[int] = []
        self._tp: list[int] = []
        self._jobs: list[str] = []
        self._kinds: dict[str, int] = {}
        schema = TRUTH["spans"]
        for name in ("job", "kind"):
            place = schema.get_field_index(name)
            schema = schema.set(place, pa.field(name, pa.dictionary(pa.int32(), pa.string())))
        super().__init__(path, schema)

    def worker(self, job: str, first_rank: int, tp: int) -> int:
        """Register a worker of ``tp`` ranks from ``first_rank`` on; returns its number."""
        if job not in self._jobs:
            self._jobs.append(job)
        self._job_of.append(self._jobs.index(job))
        self._first_rank.append(first_rank)
        self._tp.append(tp)
        return len(self._tp) - 1

    def declare(self, kinds: Iterable[str]) -> None:
        """Declare ``kinds``: only spans of declared kinds can be logged."""
        for kind in kinds:
            self._kinds.setdefault(kind, len(self._kinds))

    def communication(self, worker: int, *, common: bool = False, size_bytes: int = 0) -> int:
        """Number of a new communication of ``worker`` with others of as many ranks.

        Each of the worker's ranks communicates with its counterparts in the other workers, so
        each has its own number; unless all of them take part in one (``common``). ``size_bytes``
        is the size of a collective at each rank.
        """
        first = self._tally[COMMUNICATIONS]
        if self._keeps_sizes and size_bytes:
            self.sizes[0].append(first)
            self.sizes[1].append(size_bytes)
        self._tally[COMMUNICATIONS] = first + (1 if common else self._tp[worker])
        return _FIRST_COMMON - first if common else first

    def add(
        self,
        worker: int,
        step: int,
        micro_batch: int,
        kind: str,
        start_ns: int,
        end_ns: int,
        communication: int = NO_COMMUNICATION,
    ) -> None:
        """Log one span of one worker [simulation ns]."""
        number, row = self._kinds[kind], self._new_rows(1)
        _ROW.pack_into(
            self.rows.rows.data, row * _ROW.size,
            worker, step, micro_batch, number, communication, start_ns, end_ns,
        )  # fmt: skip
        if row + 1 >= PIECE:
            self._write(row + 1)

    def add_message(
        self,
        sender: int,
        receiver: int,
        step: int,
        micro_batch: int,
        kinds: tuple[str, str],
        start_ns: int,
        end_ns: int,
    ) -> None:
        """Log a message, at its sender and at its receiver, each by its kind [simulation ns]."""
        number = self.communication(sender)
        sent, received = self._kinds[kinds[0]], self._kinds[kinds[1]]
        row = self._new_rows(2)
        _TWO_ROWS.pack_into(
            self.rows.rows.data, row * _ROW.size,
            sender, step, micro_batch, sent, number, start_ns, end_ns,
            receiver, step, micro_batch, received, number, start_ns, end_ns,
        )  # fmt: skip

    def kind(self, name: str) -> int:
        """The number of a declared kind."""
        return self._kinds[name]

    def ranks_of(self, worker: int) -> int:
        """The number of ranks of a worker."""
        return self._tp[worker]

    def write_piece(self) -> None:
        """Write the piece that compiled code has filled."""
        self._write(self._tally[CUT])

    def _new_rows(self, count: int) -> int:
        """The place of ``count`` new rows."""
        row = self._tally[ROWS]
        if row + count > len(self.rows.rows):
            self.rows.grow()
        self._tally[ROWS] = row + count
        return row

    def _write_rest(self) -> None:
        self._write(self._tally[ROWS])

    def _write(self, count: int) -> None:
        if count:
            rows = self.rows.take(count)
            self._stream.write(lambda: self._table(rows))

    def _table(self, rows: NDArray[np.int64]) -> pa.Table:
        tp = np.array(self._tp)[rows[:, 0]]
        rows = np.repeat(rows, tp, axis=0)
        worker, step, micro_batch, kind, communication, start_ns, end_ns = rows.T
        within = np.arange(len(rows)) - np.repeat(np.cumsum(tp) - tp, tp)
        own = np.where(communication >= 0, communication + within, _FIRST_COMMON - communication)
        job = np.array(self._job_of, np.int32)[worker]
        return pa.table(
            {
                "job": pa.DictionaryArray.from_arrays(job, self._jobs),
                "rank": np.array(self._first_rank)[worker] + within,
                "step": step,
                "micro_batch": pa.array(micro_batch, mask=micro_batch == NO_MICRO_BATCH),
                "kind": pa.DictionaryArray.from_arrays(kind.astype(np.int32), list(self._kinds)),
                "communication": pa.array(own, mask=communication == NO_COMMUNICATION),
                "start_ns": start_ns + self._epoch_ns,
                "end_ns": end_ns + self._epoch_ns,
            },
            schema=self._schema,
        )


def by_rank(
    job: str, ranks_each: int, steps: list[tuple[int, int, int, int]], epoch_ns: int
) -> pd.DataFrame:
    """The truth table ``steps`` of one job.

    ``steps`` has (first rank, step, start, end) of each worker and step; a worker has
    ``ranks_each`` ranks.
    """
    rows = np.repeat(np.array(steps, np.int64).reshape(-1, 4), ranks_each, axis=0)
    within = np.tile(np.arange(ranks_each), len(steps))
    return pd.DataFrame(
        {
            "job": job,
            "rank": rows[:, 0] + within,
            "step": rows[:, 1],
            "start_ns": rows[:, 2] + epoch_ns,
            "end_ns": rows[:, 3] + epoch_ns,
        }
    ).sort_values(["rank", "step"], ignore_index=True)
