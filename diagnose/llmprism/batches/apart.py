"""Diagnoses batches on other machines, with the answers of one after the other.

A batch has to know whether batches before it have steps (:class:`~llmprism.io.flows.Rest`). That is
so in nearly all recordings, so every batch but the first is diagnosed as if they had. A batch
for which that was wrong is diagnosed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from llmprism.batches.running import DiagnoseOne, Part, Runner
from llmprism.batches.stored_spans import Kept, SpanFile
from llmprism.cluster import Map
from llmprism.diagnosis import Diagnosis
from llmprism.io.flows import Rest
from prism_common.progress import silent


@dataclass(frozen=True)
class _Batch:
    """The Parquet file of a batch, and what is known of the others."""

    content: bytes
    rest: Rest


@dataclass(frozen=True)
class _Answer:
    """A diagnosis without spans, the files of these, and whether any batch until now has steps."""

    diagnosis: Diagnosis
    spans: Sequence[tuple[bytes, Mapping[str, Kept]]]
    have_steps: bool


def diagnosed_apart(
    files: Sequence[Path],
    diagnose_one: DiagnoseOne,
    most_records: int,
    rest: Rest,
    folder: Path,
    each: Map,
    progress: Callable[[float], None],
) -> Iterator[Part]:
    """The diagnosis of each of the ``files``, in order, where ``each`` does the work.

    ``diagnose_one`` can be pickled. Spans are written to ``folder``, and files in it are removed
    when they have been diagnosed; ``progress`` gets the fraction done.
    """
    work = partial(_diagnosed, diagnose_one, most_records)
    later = replace(rest, have_steps=True)
    batches = (
        _Batch(path.read_bytes(), later if number else rest) for number, path in enumerate(files)
    )
    have_steps = rest.have_steps
    for number, (path, answer) in enumerate(zip(files, each(work, batches), strict=True)):
        if number and not have_steps:
            (answer,) = each(work, [_Batch(path.read_bytes(), rest)])
        have_steps = answer.have_steps
        if path.parent == folder:
            path.unlink()
        progress((number + 1) / len(files))
        yield answer.diagnosis, [*_stored(answer, folder, number)]


def _diagnosed(diagnose_one: DiagnoseOne, most_records: int, batch: _Batch) -> _Answer:
    """Diagnose one batch, on a worker."""
    with TemporaryDirectory(prefix="llmprism-") as name:
        folder = Path(name)
        path = folder / "records.parquet"
        path.write_bytes(batch.content)
        runner = Runner(diagnose_one, most_records, batch.rest, folder)
        diagnosis, files = runner.diagnosed(path, silent)
        spans = [(file.path.read_bytes(), file.jobs) for file in files]
        return _Answer(diagnosis, spans, runner.rest.have_steps)


def _stored(answer: _Answer, folder: Path, batch: int) -> Iterator[SpanFile]:
    """The spans of a batch, in files of ``folder``."""
    for number, (content, jobs) in enumerate(answer.spans):
        path = folder / f"spans-{batch}-{number}.parquet"
        path.write_bytes(content)
        yield SpanFile(path, jobs)
