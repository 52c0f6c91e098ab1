"""Writes ``tests/fixtures/exports``: a capture's records as an exporter sends them, and its cables.

``python tests/helpers/export_fixture.py`` makes both files again.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pandas as pd

from datagrams import FIELDS, IPFIX_TIMES, a_set, ipfix, ntp, record, template

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASE = FIXTURES / "captures" / "d_fault_rank_link"
_PER_DATAGRAM = 25


def datagrams() -> bytes:
    """IPFIX as a switch exports it: template first, records in order of their ends, in ns."""
    rows = pd.read_parquet(CASE / "flows.parquet").astype({"src": str, "dst": str})
    ordered = list(rows.sort_values("end_ns", kind="stable").itertuples())
    out = [ipfix(a_set(2, template(FIELDS | IPFIX_TIMES)))]
    for start in range(0, len(ordered), _PER_DATAGRAM):
        part = ordered[start : start + _PER_DATAGRAM]
        body = b"".join(record(row, ntp(row.start_ns), ntp(row.end_ns)) for row in part)
        out.append(ipfix(a_set(256, body)))
    return b"".join(out)


def cables() -> str:
    """The network of the capture as a table, one line a cable."""
    content = json.loads((CASE / "topology.json").read_text())
    rates = {(one["a"], one["b"]): one["gbps"] for one in content["links"]}
    lines = ["server,nic,address,switch,port,gbps"]
    used: Counter[str] = Counter()
    for end in content["endpoints"]:
        used[end["switch"]] += 1
        ends = ((name, end["switch"]) for name in (end["address"], end["server"]))
        rate = next(rates.pop(pair) for pair in ends if pair in rates)
        values = (
            end["server"],
            end["nic"],
            end["address"],
            end["switch"],
            used[end["switch"]],
            rate,
        )
        lines.append(",".join(map(str, values)))
    lines += [f"{a},,,{b},,{rate or ''}" for (a, b), rate in rates.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    folder = FIXTURES / "exports"
    folder.mkdir(exist_ok=True)
    (folder / "training.ipfix.gz").write_bytes(gzip.compress(datagrams(), 9, mtime=0))
    (folder / "cables.csv").write_text(cables())
