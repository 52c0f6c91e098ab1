"""Which servers are diagnosed together.

Servers between which training data may move belong to one *component*: a job never leaves it. All
records of a component are diagnosed in one *batch*, and a batch has as many components as fit.
What a server of one component sends to one of another is diagnosed with its sender. Endpoints
without any training traffic, such as services, have no batch of their own: their records are
diagnosed with those of their partner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.columns import endpoint_codes
from llmprism.io.loading import NAMES, StoredRecords
from llmprism.io.topology import Topology
from llmprism.io.volumes import PairVolumes
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.graph import components, distinct

NONE = -1


@dataclass(frozen=True)
class Batches:
    """The batch of each endpoint code, NONE for an endpoint without training traffic."""

    of_endpoint: Codes

    @property
    def count(self) -> int:
        """Number of batches; at least one, which may be empty."""
        return max(1, int(self.of_endpoint.max(initial=NONE)) + 1)

    def of_pairs(self, src: Codes, dst: Codes) -> Codes:
        """The batch of records from ``src`` to ``dst``; the first one for unknown endpoints.

        A negative code is an unknown endpoint.
        """
        of_code = np.append(self.of_endpoint, [NONE, NONE])  # codes of unknown ones count backwards
        batch = np.where(of_code[src] == NONE, of_code[dst], of_code[src])
        unknown = (src < 0) | (dst < 0) | (batch == NONE)
        found: Codes = np.where(unknown, 0, batch).astype(np.int32)
        return found


def divide(volumes: PairVolumes, joining: Bools, topology: Topology, most_records: int) -> Batches:
    """Divide all endpoints into batches of at most so many records, where components allow that.

    Components with the most bytes come first. ``joining`` says which pairs may carry training data.
    """
    servers = topology.servers
    component = _components(volumes, joining, servers)
    size, volume = _sums(volumes, component)
    of_component = np.full(size.size + 1, NONE, np.int32)  # the last one is for none
    batch, held = 0, 0
    for one in np.argsort(-volume, kind="stable").tolist():
        if held and held + size[one] > most_records:
            batch, held = batch + 1, 0
        of_component[one] = batch
        held += int(size[one])
    return Batches(of_component[component])


def _components(volumes: PairVolumes, joining: Bools, servers: Codes) -> Codes:
    """The component of each endpoint, numbered from 0; NONE without a joining pair."""
    ends = distinct(servers[volumes.src[joining]], servers[volumes.dst[joining]])
    label = components(*ends, int(servers.max(initial=-1)) + 1)
    employed = np.isin(np.arange(label.size), np.concatenate(ends))
    found = np.full(label.size, NONE, np.int32)
    found[employed] = np.unique(label[employed], return_inverse=True)[1]
    of_endpoint: Codes = found[servers]
    return of_endpoint


def _sums(volumes: PairVolumes, component: Codes) -> tuple[Ints, Floats]:
    """Number of records of each component, and their bytes."""
    home = component[volumes.src]
    home = np.where(home == NONE, component[volumes.dst], home)
    known = home != NONE
    count = int(component.max(initial=NONE)) + 1
    size, volume = (
        np.bincount(home[known], each[known], count) for each in (volumes.records, volumes.bytes)
    )
    return size.astype(np.int64), volume.astype(np.float64)


def write_batches(
    records: StoredRecords,
    batches: Batches,
    topology: Topology,
    folder: Path,
    progress: Callable[[float], None],
) -> list[Path]:
    """Write the records of each batch to a Parquet file in ``folder``, in their old order.

    ``progress`` gets the fraction done.

    Raises
    ------
    UserError : the file of records is damaged.
    """
    done = 0
    with _writers(records, batches.count, folder) as writers:
        for part in records.parts():
            unknown: Counter[str] = Counter()
            src, dst = (endpoint_codes(part[name], topology, unknown) for name in NAMES)
            batch = batches.of_pairs(src, dst)
            part = part.take(np.argsort(batch, kind="stable"))
            edges = np.append(0, np.cumsum(np.bincount(batch, minlength=batches.count)))
            for one, writer in enumerate(writers):
                if edges[one + 1] > edges[one]:
                    rows = part.slice(edges[one], edges[one + 1] - edges[one])
                    writer.write_table(rows.replace_schema_metadata())
            done += part.num_rows
            progress(done / records.rows)
    return [_path(folder, one) for one in range(batches.count)]


@contextmanager
def _writers(records: StoredRecords, count: int, folder: Path) -> Iterator[list[pq.ParquetWriter]]:
    """A writer for each batch, with the columns and notes of ``records``."""
    known = records.file.schema_arrow
    fields = [known.field(name) for name in records.names]  # text as categories
    schema = pa.schema(fields, metadata=records.notes)
    with ExitStack() as stack:
        yield [
            stack.enter_context(pq.ParquetWriter(_path(folder, one), schema, compression="lz4"))
            for one in range(count)
        ]


def _path(folder: Path, batch: int) -> Path:
    return folder / f"records-{batch}.parquet"
