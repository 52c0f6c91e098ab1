"""Input of the figures: the tables of a saved run, complete or not.

Real flows have no truth, and a simulation that was not diagnosed has no diagnosis. A missing table
is read as an empty one with the usual columns, so every figure can be drawn for every run
and names the missing part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from llmprism.io.stored_tables import Where
from llmprism.page import reading
from prism_sim.run_folder import LOGS_TRUTH, TRUTH, Run, required_columns

__all__ = ["Where"]


def truth(run: Run, name: str, where: Where | None = None) -> pd.DataFrame:
    """Truth table ``name``, or its rows ``where`` conditions hold; empty if the run has none."""
    path = run.folder / "truth" / f"{name}.parquet"
    return reading.read_table(path, TRUTH[name], required_columns(name), where)


def logs_truth(run: Run, name: str, where: Where | None = None) -> pd.DataFrame:
    """Truth table ``name`` of the logs; empty if the run has no logs."""
    path = run.folder / "truth" / f"{name}.parquet"
    return reading.read_table(path, LOGS_TRUTH[name], LOGS_TRUTH[name].names, where)


def diagnosis(run: Run, name: str, where: Where | None = None) -> pd.DataFrame:
    """Diagnosis table ``name``, or its rows ``where`` conditions hold; empty if there is none."""
    return reading.diagnosis(run.folder, name, where)


def rows(run: Run, side: str, name: str) -> int:
    """Length of a table of ``truth`` or ``diagnosis``, without reading it."""
    truth_folder = run.folder / "truth"
    folder = truth_folder if side == "truth" else reading.diagnosis_folder(run.folder)
    return reading.row_count(folder / f"{name}.parquet")


def flows(run: Run, wanted: Iterable[str], where: Where | None = None) -> pd.DataFrame:
    """Columns ``wanted`` of the flow table, or its rows ``where`` conditions hold."""
    return reading.flows(run.folder, wanted, where)


def json_of(run: Run, name: str) -> dict[str, Any]:
    """``topology`` or ``manifest`` of the run; empty if there is none."""
    return reading.read_json(getattr(run, name))


def origin_ns(run: Run) -> int:
    """Time zero of all figures [ns]: the first step known, or the first flow, or 0."""
    for steps in (truth(run, "steps"), diagnosis(run, "steps"), flows(run, ["start_ns"])):
        if len(steps):
            return int(steps["start_ns"].min())
    return 0


def name_of(run: Run) -> str:
    """A name for the run."""
    manifest = json_of(run, "manifest")
    return str(manifest.get("name") or manifest.get("case") or run.folder.name)
