"""What the process of a method does: set its limits, import it, read the input, write its tables.

The present folder has ``flows.parquet`` and ``topology.json``; tables and report are written beside
them.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
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
from prism_common.progress import silent

FLOWS, TOPOLOGY, TABLES, REPORT = "flows.parquet", "topology.json", "tables", "report.json"
_LONGEST = 400  # characters of a message
_HERE = str(Path(__file__).parent)
_PR_SET_PDEATHSIG = 1
_UNTOUCHED_BYTES = 4 << 30  # that libraries reserve and do not use; pyarrow alone takes 1 GiB


def main(method: str, home: str, memory_bytes: int) -> None:
    """Run ``method``, looked for in the folder ``home`` first, and leave tables and a report."""
    with suppress(OSError, AttributeError):  # only Linux can end it with the diagnoser
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    most = memory_bytes + _UNTOUCHED_BYTES
    for limit in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE):
        resource.setrlimit(limit, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.insert(0, home)
    report = Path.cwd() / REPORT
    report.write_text(json.dumps(_ran(method)), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # whatever threads the method has left


def _ran(method: str) -> dict[str, Any]:
    """Run the method called ``method``; returns the report."""
    try:
        work = methods.load(method)
        topology = read_topology(TOPOLOGY)
        flows, _ = read_flows(FLOWS, topology)
        began = time.perf_counter()
        tables = work(flows, topology, silent)
        seconds = time.perf_counter() - began
        _write(tables)
    except MemoryError:
        return {"out_of_memory": True}
    except BaseException as error:  # a method may raise anything, SystemExit included
        return {"error": _described(error)}
    return {"seconds": seconds}


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
    strange = [str(name) for name in tables if name not in DIAGNOSIS]
    if strange:
        raise TypeError(f"there is no table {', '.join(strange)}; known: {', '.join(DIAGNOSIS)}")
    folder = Path(TABLES)
    folder.mkdir()
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
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
