"""Exporters of text: tables of flow records, and what communication libraries wrote."""

from __future__ import annotations

import fileinput
from typing import IO

import pandas as pd

from prism_common.errors import Problem, UserError
from prism_sim.exporters.base import Exporter, RunExporter
from prism_sim.run_folder import Run


class Csv(Exporter):
    """A table of text, with the columns of ``flows.parquet``."""

    name = "csv"
    about = "a table of text; all columns, times in ns"
    suffix = ".csv"

    def write(self, flows: pd.DataFrame, out: IO[bytes], sampling: int) -> None:
        flows.to_csv(out, index=False)


class InspectorLines(RunExporter):
    """What communication libraries wrote: the files of all processes, one after the other."""

    name = "inspector"
    about = "lines of JSON of NCCL Inspector; times in us"
    suffix = ".jsonl"
    stem = "collectives"

    def write_run(self, run: Run, out: IO[bytes], sampling: int) -> int:
        paths = sorted(run.collectives.glob("*.jsonl"))
        if not paths:
            how = "add `collectives: {}` to the scenario, and simulate it again"
            raise UserError(Problem("the run has no collectives", str(run.collectives), how))
        with fileinput.input(paths, mode="rb") as lines:
            return sum(out.write(line) > 0 for line in lines)
