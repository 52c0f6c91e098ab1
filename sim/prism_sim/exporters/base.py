"""What an exporter is, and the columns that exporters of flows read."""

from __future__ import annotations

import fileinput
from abc import ABC, abstractmethod
from ipaddress import AddressValueError, IPv4Address
from typing import IO, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prism_common.errors import Problem, UserError
from prism_sim.run_folder import Run

PACKET_BYTES = 4096
"""Payload of a packet of RoCE, where the records do not count packets."""


class RunExporter(ABC):
    """A format of telemetry that is written from a run.

    Attributes
    ----------
    name : of the format.
    about : what the file holds, and how exact its times are.
    suffix, stem : of the file, if it is not named.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    suffix: ClassVar[str]
    stem: ClassVar[str] = "flows"

    @abstractmethod
    def write_run(self, run: Run, out: IO[bytes], sampling: int) -> int:
        """Write what the run has of this telemetry; returns the number of records."""


class Exporter(RunExporter):
    """A format of flow records."""

    def write_run(self, run: Run, out: IO[bytes], sampling: int) -> int:
        flows = pd.read_parquet(run.flows)
        self.write(flows, out, sampling)
        return len(flows)

    @abstractmethod
    def write(self, flows: pd.DataFrame, out: IO[bytes], sampling: int) -> None:
        """Write the records of ``flows.parquet``; of packets one in ``sampling``."""


def prepared(flows: pd.DataFrame) -> pd.DataFrame:
    """The records in order of their ends, as an exporter sends them, with all columns.

    Ports that are unknown are 0, packets that were not counted follow from the bytes.

    Raises
    ------
    UserError : an address is not one of IPv4.
    """
    rows = flows.sort_values("end_ns", kind="stable").reset_index(drop=True)
    rows = rows.astype({"src": str, "dst": str})
    for name, absent in (("src_port", 0), ("dst_port", 0), ("protocol", 17)):
        rows[name] = rows[name].clip(lower=0) if name in rows else absent
    if "packets" not in rows:
        rows["packets"] = np.maximum(1, -(-rows["bytes"] // PACKET_BYTES))
    return rows.assign(src_ip=addresses(rows["src"]), dst_ip=addresses(rows["dst"]))


def addresses(names: pd.Series) -> NDArray[np.uint32]:
    """Addresses of IPv4 as numbers."""
    codes, known = pd.factorize(names)
    try:
        numbers = [int(IPv4Address(str(name))) for name in known]
    except AddressValueError as error:
        what = f"an exporter sends addresses of IPv4: {error}"
        raise UserError(Problem(what, "flows.parquet", "export as csv")) from None
    return np.array(numbers, dtype=np.uint32)[codes]


# Exporters of text: tables of flow records, and what communication libraries wrote.


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
