"""From the captured packets to flow tables; the reading and the cutting are llmprism's own.

Every packet that a host sends is in the capture of its leaf once. Its path is known from the
spine that saw its connection.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lab.capture import OUT
from lab.network import Network
from llmprism.ingest.ingesting import Ingested, ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import Source, find
from llmprism.io.writing import replacing

GAPS_MS = (1, 2, 5, 10)
DEFAULT_GAP_MS = 5
KEY = ("src", "dst", "src_port", "dst_port", "protocol")
_LONG_NS = 10**15

Paths = dict[tuple[object, ...], str]


def write_flows(pcaps: Path, folder: Path, network: Network) -> dict[str, int]:
    """Write the flow tables of all idle gaps, of both sides; return their numbers of records."""
    paths = _paths(pcaps, folder, network)
    counts = {}
    for gap_ms in GAPS_MS:
        end = "" if gap_ms == DEFAULT_GAP_MS else f"_gap{gap_ms}ms"
        name = f"flows{end}.parquet"
        counts[name] = _write(_of_leaves(pcaps, False), folder / name, gap_ms, "ingress", paths)
    name = "flows_egress.parquet"
    counts[name] = _write(_of_leaves(pcaps, True), folder / name, DEFAULT_GAP_MS, "egress", paths)
    return counts


def write_exports(collected: Path, target: Path) -> int:
    """Write the flow table of what ``nfcapd`` collected; return its number of records."""
    sources = find([str(path) for path in sorted(collected.glob("nfcapd.*"))])
    return ingest(sources, target, Options()).notes.records


def _of_leaves(pcaps: Path, out: bool) -> list[Source]:
    names = sorted(path for path in pcaps.glob("leaf*.pcap") if path.stem.endswith(OUT) == out)
    return find([str(path) for path in names])


def _write(sources: list[Source], target: Path, gap_ms: int, point: str, paths: Paths) -> int:
    options = Options(idle_gap_ns=gap_ms * 1_000_000)
    done: Ingested = ingest(sources, target, options, metadata={"observation_point": point})
    table = pq.read_table(target)
    keys = zip(*(table[name].to_pylist() for name in KEY), strict=True)
    column = pa.array([paths.get(key) for key in keys], pa.string()).dictionary_encode()
    place = table.schema.get_field_index("path")
    table = table.remove_column(place) if place >= 0 else table
    table = table.append_column("path", column)
    for name in ("src", "dst"):
        where = table.schema.get_field_index(name)
        table = table.set_column(where, name, table[name].dictionary_encode())
    with replacing(target) as partial:
        pq.write_table(table, partial, compression="zstd", compression_level=19)
    return done.notes.records


def _paths(pcaps: Path, folder: Path, network: Network) -> Paths:
    """Return the path of each 5-tuple: source's leaf, spine if any, destination's leaf."""
    leaf_of = {a: leaf for leaf, below in network.leaves.items() for a in below}
    found: Paths = {}
    for pcap in [*sorted(pcaps.glob("leaf???.pcap")), *sorted(pcaps.glob("spine*.pcap"))]:
        spine = pcap.stem if pcap.stem not in network.leaves else None
        for key in _tuples(pcap, folder):
            first, last = leaf_of.get(str(key[0])), leaf_of.get(str(key[1]))
            if first is None or last is None:
                continue
            if spine is not None:
                found[key] = f"{first}|{spine}|{last}"
            elif first == last:
                found[key] = first
    return found


def _tuples(pcap: Path, folder: Path) -> set[tuple[object, ...]]:
    target = folder / ".tuples.parquet"
    options = Options(idle_gap_ns=_LONG_NS, active_timeout_ns=_LONG_NS)
    ingest(find([str(pcap)]), target, options)
    table = pq.read_table(target)
    target.unlink()
    if not set(KEY) <= set(table.column_names):
        return set()
    return set(zip(*(table[name].to_pylist() for name in KEY), strict=True))
