"""From the captured packets to flow tables; the reading and the cutting are llmprism's own.

Every packet that a host sends is in the capture of its leaf once. Its path is known from the
spine that saw its connection.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lab.capture import OUT
from lab.network import Network
from llmprism.ingest.coarser import coarser
from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import Source, find
from prism_common.files import replacing

GAPS_MS = (1, 2, 5, 10)
DEFAULT_GAP_MS = 5
EXPORTED = "flows_netflow.parquet"
KEY = ("src", "dst", "src_port", "dst_port", "protocol")
_NAME = pa.dictionary(pa.int32(), pa.string())
COLUMNS = pa.schema([
    ("start_ns", pa.int64()), ("end_ns", pa.int64()),
    ("src", _NAME), ("dst", _NAME),
    ("src_port", pa.int32()), ("dst_port", pa.int32()), ("protocol", pa.int32()),
    ("bytes", pa.int64()), ("payload", pa.int64()), ("packets", pa.int64()),
    ("path", _NAME),
])  # fmt: skip
READERS = 2
TIMES = ("start_ns", "end_ns")
_LONG_NS = 10**15

Paths = dict[tuple[object, ...], str]


def write_flows(pcaps: Path, folder: Path, network: Network) -> dict[str, int]:
    """Write the flow tables of all idle gaps, and of what hosts receive; count their records."""
    finest_ms, *others = GAPS_MS
    spines = sorted(path.stem for path in pcaps.glob("spine*.pcap"))
    with ProcessPoolExecutor(READERS, mp_context=get_context("spawn")) as pool:
        sent = pool.submit(_read, _of_leaves(pcaps, False), finest_ms)
        crossed = {spine: pool.submit(_read, [Source(pcaps / f"{spine}.pcap")], _LONG_NS / 1e6)
                   for spine in spines}  # fmt: skip
        received = pool.submit(_read, _of_leaves(pcaps, True), DEFAULT_GAP_MS)
        over = {key: spine for spine in spines for key in _tuples(crossed[spine].result())}
        flows, egress = sent.result(), received.result()
    paths = _paths(flows, over, network)
    counts = _write(flows, folder, finest_ms, "ingress", paths)
    for gap_ms in others:
        counts |= _write(coarser(flows, gap_ms * 1e6), folder, gap_ms, "ingress", paths)
    return counts | _write(egress, folder, DEFAULT_GAP_MS, "egress", paths)


def write_exports(collected: Sequence[Path], folder: Path) -> int:
    """Write the flow table of what ``nfcapd`` collected; return its number of records.

    Paths are those that the packets of the same 5-tuples took.
    """
    packets = pq.read_table(folder / flows_name(DEFAULT_GAP_MS)).to_pandas()
    paths = dict(zip(_keys(packets), packets["path"].astype(object), strict=True))
    target = folder / EXPORTED
    done = ingest(find([str(path) for path in collected]), target, Options())
    flows = pq.read_table(target).to_pandas()
    flows["path"] = pd.Series([paths.get(key) for key in _keys(flows)], dtype="object")
    schema = pa.schema([field for field in COLUMNS if field.name in flows])
    table = pa.Table.from_pandas(flows, schema, preserve_index=False)
    write_packed(table.replace_schema_metadata({"observation_point": "ingress"}), target)
    return done.notes.records


def flows_name(gap_ms: int) -> str:
    """Return the name of the flow table of an idle gap."""
    return "flows.parquet" if gap_ms == DEFAULT_GAP_MS else f"flows_gap{gap_ms}ms.parquet"


def write_packed(table: pa.Table, path: Path) -> None:
    """Write a table in as few bytes as Parquet allows: times as differences."""
    others = [name for name in table.column_names if name not in TIMES]
    with replacing(path) as partial:
        pq.write_table(table, partial, compression="zstd", compression_level=19,
                       use_dictionary=others,
                       column_encoding=dict.fromkeys(TIMES, "DELTA_BINARY_PACKED"))  # fmt: skip


def _of_leaves(pcaps: Path, out: bool) -> list[Source]:
    names = sorted(path for path in pcaps.glob("leaf*.pcap") if path.stem.endswith(OUT) == out)
    return find([str(path) for path in names])


def _read(sources: list[Source], gap_ms: float) -> pd.DataFrame:
    """Return records of captures, cut by silence alone."""
    options = Options(idle_gap_ns=round(gap_ms * 1e6), active_timeout_ns=_LONG_NS)
    with tempfile.TemporaryDirectory() as room:
        target = Path(room) / "flows.parquet"
        ingest(sources, target, options)
        frame: pd.DataFrame = pq.read_table(target).to_pandas(integer_object_nulls=False)
    return frame.drop(columns="path", errors="ignore")


def _write(
    flows: pd.DataFrame, folder: Path, gap_ms: int, point: str, paths: Paths
) -> dict[str, int]:
    name = flows_name(gap_ms) if point == "ingress" else "flows_egress.parquet"
    ordered = flows.sort_values(["start_ns", "end_ns"], kind="stable").reset_index(drop=True)
    ordered["path"] = pd.Series([paths.get(key) for key in _keys(ordered)], dtype="object")
    known = {"observation_point": point, "idle_gap_ns": str(gap_ms * 1_000_000), "sampling": "1:1"}
    table = pa.Table.from_pandas(ordered, COLUMNS, preserve_index=False)
    write_packed(table.replace_schema_metadata(known), folder / name)
    return {name: len(ordered)}


def _paths(flows: pd.DataFrame, over: Paths, network: Network) -> Paths:
    """Return the path of each 5-tuple: source's leaf, spine if any, destination's leaf."""
    leaf_of = {a: leaf for leaf, below in network.leaves.items() for a in below}
    found: Paths = {}
    for key in _tuples(flows):
        first, last = leaf_of.get(str(key[0])), leaf_of.get(str(key[1]))
        if first is not None and last is not None:
            rest = [over.get(key, "?"), last] if first != last else []
            found[key] = "|".join([first, *rest])
    return found


def _tuples(flows: pd.DataFrame) -> set[tuple[object, ...]]:
    return set(_keys(flows)) if set(KEY) <= set(flows) else set()


def _keys(flows: pd.DataFrame) -> list[tuple[object, ...]]:
    """Return the 5-tuple of each record; protocols without ports have -1 for them."""
    known = flows[list(KEY)].fillna({"src_port": -1, "dst_port": -1})
    return list(known.itertuples(index=False, name=None))
