"""Diagnoses a file whose records do not fit in memory together.

The file is read twice. The first time, its records are added up by pairs of addresses, which shows
the servers that may belong to one job (:mod:`~llmprism.batches.dividing`). The second time,
the records of each batch of such servers are copied to a file of their own, in the folder for
temporary files. Then the batches are diagnosed one after the other, and the results are joined.

A batch knows when the whole recording begins and ends, who sends in it, and whether batches before
it have steps; those with the most bytes come first. It knows nothing else of other batches: a
finding that rests on the traffic of another job, or on a switch that several jobs use, may be
missed if these jobs are in different batches.

A job that has more records than one batch may have is diagnosed in windows of time that overlap
(:mod:`~llmprism.batches.running`), and its steps are stitched together. What lasts longer than a
window, such as a GPU that is slow from some step on, is seen where it begins. Where windows have
too few steps, fewer and larger ones are tried, and at last the whole.

On a cluster (:mod:`llmprism.cluster`), workers add up pairs and diagnose the same batches. There,
every batch but the first is diagnosed as if batches before it had steps, which is so in nearly all
recordings (:class:`~llmprism.io.flows.Rest`). One for which that was wrong is diagnosed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from llmprism.batches.dividing import divide, write_batches
from llmprism.batches.joining import joined
from llmprism.batches.running import DiagnoseOne, Part, Runner
from llmprism.batches.stored_spans import Kept, SpanFile
from llmprism.cluster import Map, in_turn
from llmprism.diagnosis import Diagnosis
from llmprism.io.flows import Intake, Rest
from llmprism.io.loading import row_count, stored
from llmprism.io.topology import Topology
from llmprism.io.volumes import JoiningPairs, read_volumes
from prism_common.progress import Progress, silent

_COUNTING, _COPYING = 0.1, 0.2  # share of the time until the end of each
_MOST_FILES = 256  # that are open at a time


def diagnose_in_batches(
    path: Path | str,
    topology: Topology,
    joining: JoiningPairs,
    most_records: int,
    diagnose_one: DiagnoseOne,
    progress: Progress,
    each: Map = in_turn,
) -> Diagnosis:
    """Diagnose a Parquet file in batches of about ``most_records`` records.

    ``joining`` says which pairs have to stay together. ``each`` may do work on other machines;
    then ``diagnose_one`` can be pickled.

    Raises
    ------
    UserError : the file is not valid.
    OSError : there is no space for temporary files.
    """
    most_records = max(most_records, row_count(path) // _MOST_FILES)
    folder = TemporaryDirectory(prefix="llmprism-")
    files, rest, intake = _divided(
        path, topology, joining, most_records, Path(folder.name), progress, each
    )
    own = (files, diagnose_one, most_records, rest, Path(folder.name))
    if each is in_turn:
        parts = _one_after_the_other(*own, progress)
    else:
        parts = _diagnosed_apart(*own, each, _batches_of(len(files), progress))
    diagnoses, spans = zip(*parts, strict=True)
    return joined(diagnoses, spans, intake, folder)


def _one_after_the_other(
    files: Sequence[Path],
    diagnose_one: DiagnoseOne,
    most_records: int,
    rest: Rest,
    folder: Path,
    progress: Progress,
) -> Iterator[Part]:
    """The diagnosis of each of the ``files``."""
    runner = Runner(diagnose_one, most_records, rest, folder)
    progress = _forward(progress)  # smaller windows may be tried before larger ones
    for number, file in enumerate(files):

        def report(fraction: float, doing: str, number: int = number) -> None:
            done = (number + fraction) / len(files)
            part = f"{number + 1} of {len(files)}: " if len(files) > 1 else ""
            progress(_COPYING + (1 - _COPYING) * done, part + doing)

        yield runner.diagnosed(file, report)


def _batches_of(count: int, progress: Progress) -> Callable[[float], None]:
    """Reports how many of the batches are complete."""
    progress(_COPYING, f"{count} parts on the cluster")

    def report(fraction: float) -> None:
        doing = f"{round(fraction * count)} of {count} parts"
        progress(_COPYING + (1 - _COPYING) * fraction, doing)

    return report


def _divided(
    path: Path | str,
    topology: Topology,
    joining: JoiningPairs,
    most_records: int,
    folder: Path,
    progress: Progress,
    each: Map,
) -> tuple[list[Path], Rest, Intake]:
    """The records of each batch as a file, what it has to know of others, and counts.

    The files are in ``folder``, unless all records are in one batch.
    """

    def report(begin: float, end: float, doing: str) -> Callable[[float], None]:
        return lambda fraction: progress(begin + (end - begin) * fraction, doing)

    with stored(path) as records:
        counting = report(0.0, _COUNTING, "adding up pairs")
        volumes, rest, intake = read_volumes(records, topology, counting, each)
        batches = divide(volumes, joining(volumes, topology), topology, most_records)
        if batches.count == 1:
            return [Path(path)], rest, intake
        copying = report(_COUNTING, _COPYING, "dividing records by jobs")
        files = write_batches(records, batches, topology, folder, copying)
    return files, rest, intake


def _forward(progress: Progress) -> Progress:
    """Reports the same work, and as the fraction done the largest until then."""
    latest = 0.0

    def report(fraction: float, doing: str) -> None:
        nonlocal latest
        latest = max(latest, fraction)
        progress(latest, doing)

    return report


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


def _diagnosed_apart(
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
