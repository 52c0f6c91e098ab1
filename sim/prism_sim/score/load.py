"""The truth and the diagnosis of one run, with uniform tables.

Captures from elsewhere have fewer columns than the simulator writes (no ``ep``, no
``culprit``) and some of their own. Here every table gets all columns of its schema, empty
if the capture lacks them, so the scores need no case distinctions. Nothing is computed except
the rank of the truth that each row belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io import tables
from llmprism.io.tables import DIAGNOSIS
from llmprism.page.reading import complete
from prism_sim import run_folder
from prism_sim.run_folder import TRUTH, Run

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    """The truth of one run and its diagnosis.

    Attributes
    ----------
    truth : table by name, with at least the columns of :data:`prism_sim.run_folder.TRUTH`.
    diagnosis : table by name, with at least the columns of :data:`llmprism.io.tables.DIAGNOSIS`.
    topology : content of ``topology.json``; empty if there is none.
    manifest : content of ``manifest.json``; empty if there is none.
    intake : the diagnoser's counts of records; empty if there are none.
    """

    truth: dict[str, pd.DataFrame]
    diagnosis: dict[str, pd.DataFrame]
    topology: dict[str, Any]
    manifest: dict[str, Any]
    intake: dict[str, Any] = field(default_factory=dict)


def load(run: Run) -> Case:
    """Read all input of the scores; raises ``UserError`` if a table is missing."""
    truth = {name: complete(_true(run, name), schema) for name, schema in TRUTH.items()}
    found = {name: complete(_found(run, name), schema) for name, schema in DIAGNOSIS.items()}
    found["steps"] = found["steps"].assign(dp_end_ns=_exact(run.diagnosis_folder, "dp_end_ns"))
    return Case(
        truth,
        found,
        run.read_json(run.topology) if run.topology.exists() else {},
        run.read_json(run.manifest) if run.manifest.exists() else {},
        intake(run),
    )


def _true(run: Run, name: str) -> pd.DataFrame:
    """Read a table of the truth; it is empty if a capture or an older run lacks it."""
    absent = name in run_folder.ADDED_LATER and not run.has_truth(name)
    return TRUTH[name].empty_table().to_pandas() if absent else run.truth(name)


def _found(run: Run, name: str) -> pd.DataFrame:
    """Read a table of the diagnosis; it is empty if an older diagnosis lacks it."""
    absent = name in tables.ADDED_LATER and not (run.diagnosis_folder / f"{name}.parquet").exists()
    return DIAGNOSIS[name].empty_table().to_pandas() if absent else run.diagnosis(name)


def _exact(folder: Path, column: str) -> pd.Series:
    """A column of step times that may contain nulls, as exact integers.

    As float64, the type that nulls lead to, times since the epoch are exact only to 256 ns.
    """
    table = pq.read_table(folder / "steps.parquet")
    if column not in table.column_names:
        return pd.Series(pd.NA, index=range(len(table)), dtype="Int64")
    whole: pd.Series = table[column].to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return whole


def rank_rows(ranks: pd.DataFrame, frame: pd.DataFrame) -> Ints:
    """Row of ``ranks`` for each row of ``frame``, by (job, rank); -1 if none."""
    jobs = pd.Index(ranks["job"].unique())
    width = int(ranks["rank"].max()) + 1 if len(ranks) else 1
    table = np.full(len(jobs) * width + 1, -1, np.int64)
    table[jobs.get_indexer(ranks["job"]) * width + ranks["rank"].to_numpy()] = np.arange(len(ranks))
    job = _codes(jobs, frame["job"])
    rank = frame["rank"].fillna(-1).to_numpy(np.int64)
    known = (job >= 0) & (rank >= 0) & (rank < width)
    rows: Ints = table[np.where(known, job * width + rank, len(table) - 1)]
    return rows


def _codes(names: pd.Index, column: pd.Series) -> Ints:
    """Position in ``names`` of each value; each distinct value is looked up once."""
    codes, distinct = pd.factorize(column)
    places = np.append(names.get_indexer(pd.Index(distinct)), -1)
    found: Ints = places[codes].astype(np.int64)
    return found


def intake(run: Run) -> dict[str, Any]:
    """The diagnoser's method and its counts of records; empty if there are none.

    ``diagnosis/intake.json``: ``method``, the counts ``rows`` and ``kept``, and ``set_aside``,
    counts by reason.
    """
    path = run.diagnosis_folder / "intake.json"
    return run.read_json(path) if path.exists() else {}
