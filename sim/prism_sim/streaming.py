"""Tables that are written in batches during a run.

A background thread compresses and writes the batches in order; only a few may wait. So a long run
keeps its speed, its memory is bounded, and its files are the same to the byte.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

PENDING = 2
"""Batches that may wait before the run waits for the writer."""


class TableStream:
    """One Parquet file, written by a background thread.

    Parameters
    schema : of every batch, and of the file.
    path : the file to write.
    schema : of every piece, and of the file.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"write-{path.name}")
        self._pending: deque[Future[None]] = deque()

    def write(self, make: Callable[[], pa.Table]) -> None:
        """Write the table that ``make`` returns after all others.

        Errors of writing are raised here or in ``close``.
        """
        while len(self._pending) >= PENDING:
            self._pending.popleft().result()
        self._pending.append(self._thread.submit(lambda: self._writer.write_table(make())))

    def close(self) -> None:
        """Wait until everything is written, and close the file."""
        try:
            while self._pending:
                self._pending.popleft().result()
        finally:
            self._thread.shutdown()
            self._writer.close()


class Streaming(ABC):
    """Collects rows and writes them, within a ``with`` block, to one file.

    The file is opened and closed with the block. If the block ends with an error, rows that are
    still in memory are not written.

    Parameters
    ----------
    path : the file to write.
    schema : of the file.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema

    def __enter__(self) -> Self:
        self._stream = TableStream(self._path, self._schema)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._write_rest()
        finally:
            self._stream.close()

    @abstractmethod
    def _write_rest(self) -> None:
        """Write the rows that are still in memory; called when the block ends without an error."""
