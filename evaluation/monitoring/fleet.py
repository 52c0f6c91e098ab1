"""Many jobs of 128 GPUs at their own pace, made of one simulated recording.

Each job has servers and addresses of its own. Eight of them share the leaves of a pod. A job begins
up to a step later than the first one, so that steps do not end together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from prism_sim.run_folder import Run

GPUS = 128
NS = 1_000_000_000
_POD = 8  # jobs
_TURN = 0.618  # of a step, from the begin of a job to that of the next one


def write_topology(run: Run, jobs: int, path: Path) -> None:
    """Write the network of so many jobs like that of a recording."""
    one = json.loads(run.topology.read_text())
    switches = {each["name"] for each in one["switches"]}
    ends = [
        {
            **end,
            "address": _address(end["address"], job),
            "server": server_of(end["server"], job),
            "switch": _switch(end["switch"], job),
        }
        for job in range(jobs)
        for end in one["endpoints"]
    ]
    every: dict[str, list[dict[str, Any]]] = {"endpoints": ends, "switches": [], "links": []}
    for job in range(0, jobs, _POD):
        every["switches"] += [
            {**each, "name": _switch(each["name"], job)} for each in one["switches"]
        ]
    for job in range(jobs):
        for link in one["links"]:
            if job % _POD and {link["a"], link["b"]} <= switches:
                continue  # the pod has it
            sides = {
                side: (_switch if link[side] in switches else _address)(link[side], job)
                for side in ("a", "b")
            }
            every["links"].append({**link, **sides})
    path.write_text(json.dumps(every))


class Fleet:
    """The records of many jobs, second by second; the first job has those of ``slow``.

    Attributes
    ----------
    begins_ns : start of the first record [ns].
    """

    def __init__(self, calm: Run, slow: Run, jobs: int, step_ns: float) -> None:
        self._tables = [_Recording(slow, jobs), _Recording(calm, jobs)]
        self._later_ns = [round(job * _TURN % 1 * step_ns) for job in range(jobs)]
        self.begins_ns = self._tables[0].begins_ns

    def second(self, number: int) -> pa.Table:
        """The records that end in a second, in order of their ends."""
        begin_ns = self.begins_ns + number * NS
        pieces = [
            self._tables[min(job, 1)].ended(begin_ns, begin_ns + NS, job, later_ns)
            for job, later_ns in enumerate(self._later_ns)
        ]
        return pa.concat_tables(pieces)


class _Recording:
    """The records of one job, in order of their ends, with the names of all jobs."""

    def __init__(self, run: Run, jobs: int) -> None:
        flows = pd.read_parquet(run.flows).sort_values("end_ns", kind="stable")
        self.begins_ns = int(flows["start_ns"].min())
        self._end_ns = flows["end_ns"].to_numpy()
        texts = ("src", "dst", "path")
        self._columns = {
            name: flows[name].to_numpy() for name in flows.columns if name not in texts
        }
        self._codes, self._names = {}, {}
        for name in texts:
            column = flows[name].cat
            rename = _path if name == "path" else _address
            self._codes[name] = column.codes.to_numpy(np.int32)
            values = [rename(str(one), job) for job in range(jobs) for one in column.categories]
            self._names[name] = pa.array(values), len(column.categories)

    def ended(self, begin_ns: int, end_ns: int, job: int, later_ns: int) -> pa.Table:
        """The records of a job that ended in a stretch of time."""
        first, last = np.searchsorted(self._end_ns, [begin_ns - later_ns, end_ns - later_ns])
        rows = slice(int(first), int(last))
        columns = {name: values[rows] for name, values in self._columns.items()}
        for name in ("start_ns", "end_ns"):
            columns[name] = columns[name] + later_ns
        for name, codes in self._codes.items():
            values, size = self._names[name]
            columns[name] = pa.DictionaryArray.from_arrays(codes[rows] + job * size, values)
        return pa.table(columns)


def written(fleet: Fleet, seconds: int, folder: Path) -> Iterator[Path]:
    """Write the records of so many seconds, a file each."""
    folder.mkdir(parents=True)
    for number in range(seconds):
        path = folder / f"{number:06}.parquet"
        pq.write_table(fleet.second(number), path)
        yield path


def server_of(name: str, job: int) -> str:
    """The server of another job."""
    return f"{job:03}-{name}"


def _address(text: str, job: int) -> str:
    """An address of another job: the second byte tells which."""
    first, _, *rest = text.split(".")
    return ".".join([first, str(job), *rest])


def _switch(text: str, job: int) -> str:
    return f"pod{job // _POD}-{text}"


def _path(text: str, job: int) -> str:
    return "|".join(_switch(one, job) for one in text.split("|"))
