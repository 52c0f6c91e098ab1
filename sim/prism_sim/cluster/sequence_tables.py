"""The tables of sequences, which workers fill and compiled code changes.

A worker adds its pieces, mailboxes, queues and its sequence once. Before it lets the sequence run,
it sets the pieces, the step and the durations in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.cluster.sequences import (
    COMPUTES,
    EVENT,
    FREE_MESSAGE,
    IDLE,
    MESSAGE,
    N_EVENTS,
    NOBODY,
    PIECE,
    QUEUE,
    SEQUENCE,
    SPARE,
    WAITS,
    Sequences,
)
from prism_sim.cluster.state import NEVER, Array, grown
from prism_sim.truth import ROWS, LogRows

PLACES = 64
"""Messages and events for which new tables have room."""


def empty_sequences(log: LogRows) -> Sequences:
    """Tables without any sequence."""
    message = np.zeros(PLACES, MESSAGE)
    message["next"] = np.arange(1, PLACES + 1)
    none = np.zeros(0, np.int32)
    return Sequences(
        piece=np.zeros(0, PIECE),
        sequence=np.zeros(0, SEQUENCE),
        duration_ns=np.zeros(0),
        size_bytes=np.zeros(0, np.int64),
        arrived=none,
        waiter=none,
        queue=np.zeros(0, QUEUE),
        message=message,
        event=np.zeros(PLACES, EVENT),
        counts=np.zeros(3, np.int64),
        log=log.rows,
        tally=log.tally,
        limit=log.limit,
    )


class SequenceTables:
    """Growing tables of sequences.

    Attributes
    ----------
    now : the tables that compiled code uses at present.
    """

    def __init__(self) -> None:
        self._log = LogRows()
        self.now = empty_sequences(self._log)
        self._used = dict.fromkeys(("piece", "sequence", "duration_ns", "size_bytes"), 0)
        self._used |= dict.fromkeys(("arrived", "waiter", "queue"), 0)
        self._pieces: dict[bytes, int] = {}

    def log_into(self, log: LogRows) -> None:
        """Log the spans of all sequences into ``log``."""
        self._log = log
        self.now = self.now._replace(log=log.rows, tally=log.tally, limit=log.limit)

    def add_pieces(self, pieces: Array) -> int:
        """Add ``pieces`` (dtype PIECE), once if they are equal; return the place of the first."""
        key = pieces.tobytes()
        if key not in self._pieces:
            self._pieces[key] = self._extend("piece", pieces)
        return self._pieces[key]

    def add_mailboxes(self, count: int) -> int:
        """Add empty mailboxes; return the number of the first."""
        self._extend("waiter", np.full(count, NOBODY, np.int32))
        return self._extend("arrived", np.zeros(count, np.int32))

    def add_queue(
        self, bundle: int, latency_ns: int, mailboxes: int, workers: tuple[int, int], ranks: int
    ) -> int:
        """Add a queue of messages on ``bundle``, to the mailboxes from number ``mailboxes`` on.

        ``workers`` are the numbers of its sender and its receiver, of ``ranks`` each, in the log.
        """
        row = np.zeros(1, QUEUE)
        row["bundle"], row["latency_ns"], row["mailboxes"] = bundle, latency_ns, mailboxes
        row["sender"], row["receiver"] = workers
        row["ranks"] = ranks
        row["first"] = -1
        return self._extend("queue", row)

    def add_sequence(
        self, number: int, mailboxes: int, durations: int, sizes: Sequence[int]
    ) -> int:
        """Add the sequence of the worker ``number`` of the log, whose first mailbox is given.

        It has room for ``durations`` durations, and its messages have ``sizes`` [bytes] on each
        flow.
        """
        row = np.zeros(1, SEQUENCE)
        row["number"], row["mailboxes"], row["duration_factor"] = number, mailboxes, 1.0
        row["durations"] = self._extend("duration_ns", np.zeros(durations))
        row["sizes"] = self._extend("size_bytes", np.array(sizes, np.int64))
        return self._extend("sequence", row)

    @property
    def first_event_ns(self) -> int:
        """Time of the first event of all sequences."""
        return int(self.now.event[0]["time_ns"]) if self.now.counts[N_EVENTS] else NEVER

    def mailboxes_of(self, sequence: int) -> int:
        """The first mailbox of ``sequence``."""
        return int(self.now.sequence[sequence]["mailboxes"])

    def set_queues(self, sequence: int, queues: Sequence[int]) -> None:
        """Let ``sequence`` send to ``queues``, which follow each other."""
        self.now.sequence[sequence]["queues"] = queues[0] if queues else 0

    def stop(self, sequence: int) -> None:
        """Let ``sequence`` neither compute nor wait."""
        row = self.now.sequence[sequence]
        if row["state"] == WAITS:
            mailbox = row["mailboxes"] + self.now.piece[row["piece"]]["awaits"]
            self.now.waiter[mailbox] = NOBODY
        row["state"] = IDLE

    def make_room(self) -> None:
        """Grow the arrays that events fill, if little room is left."""
        tables = self.now
        if tables.counts[FREE_MESSAGE] >= len(tables.message):
            old = len(tables.message)
            message = grown(tables.message, 2 * old)
            message["next"][old:] = np.arange(old + 1, 2 * old + 1)
            self.now = self.now._replace(message=message)
        if 2 * tables.counts[N_EVENTS] > len(tables.event):
            self.now = self.now._replace(event=grown(tables.event, 2 * len(tables.event)))
        if tables.tally[ROWS] + SPARE > len(tables.log):
            self._log.grow()
            self.now = self.now._replace(log=self._log.rows)

    def _extend(self, name: str, values: NDArray[np.generic]) -> int:
        """Append ``values`` to the table ``name``; return the place of the first."""
        table, first = getattr(self.now, name), self._used[name]
        self._used[name] = first + len(values)
        if self._used[name] > len(table):
            table = grown(table, 2 * self._used[name])
            self.now = self.now._replace(**{name: table})
        table[first : self._used[name]] = values
        return first


class Stretch(simpy.Event):
    """The end of the present pieces of ``sequence``."""

    def __init__(self, env: simpy.Environment, tables: SequenceTables, sequence: int) -> None:
        super().__init__(env)
        self._tables = tables
        self._sequence = sequence

    @property
    def awaits(self) -> int | None:
        """The piece that waits for its message; None if the sequence computes."""
        row = self._tables.now.sequence[self._sequence]
        return None if row["state"] == COMPUTES else int(row["piece"])
