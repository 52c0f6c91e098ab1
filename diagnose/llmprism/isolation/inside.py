"""What the process of a method does: import it, read the input, call it, write its tables.

The present folder has ``flows.parquet`` and ``topology.json``; the tables are written beside them.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism import methods
from llmprism.io.flows import read_flows
from llmprism.io.parts import InParts
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.topology import read_topology
from llmprism.io.writing import write_table

FLOWS, TOPOLOGY, TABLES = "flows.parquet", "topology.json", "tables"
_LONGEST = 400  # characters of a message
_HERE = str(Path(__file__).parent)


def run(method: str) -> dict[str, Any]:
    """Run the method called ``method``; returns the report for the supervisor."""
    try:
        work = methods.load(method)
        topology = read_topology(TOPOLOGY)
        flows, _ = read_flows(FLOWS, topology)
        began = time.perf_counter()
        tables = work(flows, topology, _silent)
        seconds = time.perf_counter() - began
        _write(tables)
    except MemoryError:
        return {"out_of_memory": True}
    except BaseException as error:  # a method may raise anything, SystemExit included
        return {"error": _described(error)}
    return {"seconds": seconds}


def _silent(_fraction: float, _doing: str) -> None:
    pass


def _described(error: BaseException) -> str:
    """Type, message and place of an error: the innermost line that is not of this package."""
    traceback.print_exception(error)
    lines = [line for line in traceback.extract_tb(error.__traceback__)
             if not line.filename.startswith(_HERE)]  # fmt: skip
    place = f" ({Path(lines[-1].filename).name}:{lines[-1].lineno})" if lines else ""
    return f"{type(error).__name__}: {str(error)[:_LONGEST]}{place}"


def _write(tables: object) -> None:
    if not isinstance(tables, Mapping):
        what = f"the method returned a {type(tables).__name__}, and must return tables by name"
        raise TypeError(what)
    folder = Path(TABLES)
    folder.mkdir()
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        if name not in DIAGNOSIS:
            raise TypeError(f"there is no table {name!r}; known: {', '.join(DIAGNOSIS)}")
        if isinstance(table, InParts):
            write_table(table, path, DIAGNOSIS[name])
        else:
            pq.write_table(_arrow(name, table), path)


def _arrow(name: str, table: object) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pd.DataFrame):
        return pa.Table.from_pandas(table, preserve_index=False)
    what = f"the table {name!r} is a {type(table).__name__}"
    raise TypeError(f"{what}, and must be a data frame of pandas or a table of Arrow")
