"""What communication libraries wrote, in one file."""

from __future__ import annotations

import fileinput
from typing import IO

from prism_common.errors import Problem, UserError
from prism_sim.exporters.base import RunExporter
from prism_sim.run_folder import Run


class InspectorLines(RunExporter):
    """The files of all processes, one after the other."""

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
