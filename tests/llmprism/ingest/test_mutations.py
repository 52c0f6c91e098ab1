"""Changed bytes in small sources of every binary format: an answer in bounded time, no traceback.

What comes out is a table whose records can be, and counts of what could not be read.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmprism.ingest.bounds import LARGEST
from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import Source
from prism_common.errors import UserError

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
SOURCES = {
    "02-biflow-reverse-counters/biflow.ipfix": "netflow",
    "04-sampling-size-and-population/population.ipfix": "netflow",
    "07-uptime-without-init-time/uptime.ipfix": "netflow",
    "08-inner-and-outer-headers/tunnel.ipfix": "netflow",
    "09-nsel-and-initiator-octets/nsel.v9": "netflow",
    "01-export-port-not-listed/arp-first.pcap": None,
    "13-mpls-and-other-tags/mpls.pcap": "pcap",
    "13-mpls-and-other-tags/pppoe.pcap": "pcap",
    "15-infiniband-links/rocev1.pcap": "pcap",
    "fuzz/5195848c-in.pcapng": "pcap",
    "fuzz/scd650481.bin": "sflow",
}
BOUNDED = settings(
    max_examples=12,
    deadline=30_000,  # ms, on a loaded machine
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from([b"\0", b"\xff", b"\xff" * 8, b"\x80" + bytes(7)])
              | st.binary(min_size=1, max_size=4)),
    max_size=6,
)  # fmt: skip


def changed(content: bytes, changes: list[tuple[float, bytes]], end: float) -> bytes:
    """Return bytes with some of them replaced, cut where ``end`` is less than a half."""
    out = bytearray(content)
    for place, value in changes:
        at = int(place * (len(out) - 1))
        out[at : at + len(value)] = value
    return bytes(out[: len(out) if end > 0.5 else int(2 * end * len(out))])


def check(content: bytes, reader: str | None, folder: Path) -> None:
    (folder / "source").write_bytes(content)
    with suppress(UserError):
        done = ingest([Source(folder / "source")], folder / "flows.parquet", Options(), reader)
        assert done.notes.records + done.notes.set_aside.total() + len(done.notes.remarks) > 0
        for row in pq.read_table(folder / "flows.parquet").to_pylist():
            assert -LARGEST <= row["start_ns"] <= row["end_ns"] <= LARGEST
            assert 0 <= row["bytes"] <= LARGEST
            assert 0 <= (row.get("packets") or 0) <= LARGEST


@pytest.mark.parametrize("name", SOURCES)
@BOUNDED
@given(changes=CHANGES, end=st.floats(0, 1))
def test_changed_bytes_give_records_that_can_be_or_counts(
    name: str, changes: list[tuple[float, bytes]], end: float, tmp_path: Path
) -> None:
    check(changed((CASES / name).read_bytes(), changes, end), SOURCES[name], tmp_path)


@pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")
@settings(BOUNDED, max_examples=6)
@given(changes=CHANGES)
def test_changed_bytes_in_files_of_nfcapd_do_not_hang(
    changes: list[tuple[float, bytes]], tmp_path: Path
) -> None:
    content = (CASES / "24-nfcapd-unset-times" / "created-only.nfcapd").read_bytes()
    check(content[:2] + changed(content[2:], changes, 1.0), "nfcapd", tmp_path)
