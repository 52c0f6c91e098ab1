"""Diagnoses a file whose records do not fit in memory together.

The file is read twice. The first time, its records are added up by pairs of addresses, which shows
the servers that may belong to one job (:mod:`~llmprism.batches.dividing`). The second time,
the records of each batch of such servers are copied to a file of their own, in the folder for
temporary files. Then the batches are diagnosed one after the other, and the results are joined.

A batch knows when the whole recording begins and ends, who sends in it, and whether batches before
it have steps; those with the most bytes come first. It knows nothing else of other batches: a
finding that rests on the traffic of another job, or on a switch that several jobs use, may be
missed if these jobs are in different batches. A job whose own records are more than one batch may
have is diagnosed as a whole, and takes as much memory as it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from llmprism.batches.dividing import divide
from llmprism.batches.files import write_batches
from llmprism.batches.joining import joined
from llmprism.diagnosis import Diagnosis
from llmprism.io.flows import Rest
from llmprism.io.loading import stored
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.topology import Topology
from llmprism.io.volumes import JoiningPairs, read_volumes
from llmprism.io.writing import write_table
from llmprism.model import Progress
from llmprism.numerics.memory import give_back

_COUNTING, _COPYING = 0.1, 0.2  # share of the time until the end of each

DiagnoseOne = Callable[[Path, Rest, Progress], Diagnosis]
"""Diagnoses a file of records; the others are known by what :class:`Rest` has."""


def diagnose_in_batches(
    path: Path | str,
    topology: Topology,
    joining: JoiningPairs,
    most_records: int,
    diagnose_one: DiagnoseOne,
    progress: Progress,
) -> Diagnosis:
    """Diagnose a Parquet file in batches of about ``most_records`` records.

    ``joining`` says which pairs have to stay together.

    Raises
    ------
    UserError : the file is not valid.
    OSError : there is no space for temporary files.
    """
    folder = TemporaryDirectory(prefix="llmprism-")
    files, rest = _divided(path, topology, joining, most_records, Path(folder.name), progress)
    diagnoses, spans = [], []
    for number, file in enumerate(files):

        def report(fraction: float, doing: str, number: int = number) -> None:
            done = (number + fraction) / len(files)
            progress(_COPYING + (1 - _COPYING) * done, f"{number + 1} of {len(files)}: {doing}")

        one = diagnose_one(file, rest, report)
        rest = replace(rest, have_steps=rest.have_steps or len(one.steps) > 0)
        file.unlink()
        spans.append(file.with_name(f"spans-{number}.parquet"))
        write_table(one.spans_in_parts, spans[-1], DIAGNOSIS["spans"], further=True)
        diagnoses.append(one.without_spans())
        del one
        give_back()
    return joined(diagnoses, spans, folder)


def _divided(
    path: Path | str,
    topology: Topology,
    joining: JoiningPairs,
    most_records: int,
    folder: Path,
    progress: Progress,
) -> tuple[list[Path], Rest]:
    """The records of each batch as a file in ``folder``, and what each has to know of all."""

    def counted(fraction: float) -> None:
        progress(_COUNTING * fraction, "adding up pairs")

    def copied(fraction: float) -> None:
        progress(_COUNTING + (_COPYING - _COUNTING) * fraction, "dividing records")

    with stored(path) as records:
        volumes = read_volumes(records, topology, counted)
        batches = divide(volumes, joining(volumes, topology), topology, most_records)
        return write_batches(records, batches, topology, folder, copied), volumes.rest
