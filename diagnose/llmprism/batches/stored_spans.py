"""The table of spans in files, as there are more spans than records.

Every file has the spans of one batch or of one window. Jobs get new names when the table is read,
and of a window only some steps count, under new numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from llmprism.diagnosis import Diagnosis
from llmprism.io.parts import InParts
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.writing import write_table

_LAST = 2**62


@dataclass(frozen=True)
class Kept:
    """The steps of a job that count: ``first`` to ``last``, which get numbers higher by ``shift``.

    ``name`` is the new name of the job.
    """

    name: str
    first: int = 0
    last: int = _LAST
    shift: int = 0

    def of(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of ``table`` in these steps, under the new name and the new numbers."""
        own = table[table["step"].between(self.first, self.last)]
        return own.assign(job=self.name, step=own["step"] + self.shift)


@dataclass(frozen=True)
class SpanFile:
    """A file of spans, and what counts of each job in it."""

    path: Path
    jobs: Mapping[str, Kept]

    def renamed(self, names: Mapping[str, str]) -> SpanFile:
        """The same file with new names of jobs."""
        jobs = {old: replace(kept, name=names[kept.name]) for old, kept in self.jobs.items()}
        return replace(self, jobs=jobs)


def write_spans(diagnosis: Diagnosis, path: Path) -> SpanFile:
    """Write the spans of ``diagnosis`` to ``path``."""
    write_table(diagnosis.spans_in_parts, path, DIAGNOSIS["spans"], further=True)
    jobs = map(str, diagnosis.jobs["job"].unique())
    return SpanFile(path, {job: Kept(job) for job in jobs})


@dataclass(frozen=True)
class StoredSpans:
    """Makes the table of spans from files.

    Attributes
    ----------
    folder : of the files; it is removed when nothing needs it any more.
    files : in order.
    addresses : all that the table may name.
    """

    folder: TemporaryDirectory[str]
    files: Sequence[SpanFile]
    addresses: list[str]

    def in_parts(self) -> InParts:
        """The table, read when it is needed."""
        return InParts(self._parts)

    def _parts(self) -> Iterator[pd.DataFrame]:
        names = sorted({kept.name for file in self.files for kept in file.jobs.values()})
        types = {"job": pd.CategoricalDtype(names), "address": pd.CategoricalDtype(self.addresses)}
        for one in self.files:
            with pq.ParquetFile(one.path, read_dictionary=["job", "address"]) as file:
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group).to_pandas()
                    yield _counted(table, one.jobs).astype(types)
        if not any(pq.read_metadata(one.path).num_row_groups for one in self.files):
            yield DIAGNOSIS["spans"].empty_table().to_pandas()


def _counted(table: pd.DataFrame, jobs: Mapping[str, Kept]) -> pd.DataFrame:
    """The rows of ``table`` that count, with new names of jobs and numbers of steps."""
    codes, found = pd.factorize(table["job"])
    kept = [jobs[str(job)] for job in found]
    first, last, shift = (
        np.array([getattr(one, name) for one in kept], np.int64)[codes]
        for name in ("first", "last", "shift")
    )
    step = table["step"].to_numpy()
    own = (first <= step) & (step <= last)
    names = np.array([one.name for one in kept], object)
    return table.assign(job=names[codes], step=step + shift)[own]
