"""Ports of a production cluster, and peers of them."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from evaluation.exam.truth import has_peers
from evaluation.paths import REFERENCE
from evaluation.production.measuring import agreement, measured
from evaluation.production.page import page_of
from llmprism.counters.readers import read
from llmprism.counters.readers.options import Options
from llmprism.io.topology import read_topology

FOLDER = Path(__file__).parents[1] / "fixtures" / "counters"


@pytest.fixture(scope="module")
def page() -> str:
    readings = read([str(FOLDER / "production.parquet")], Options())
    hour = measured(readings, read_topology(FOLDER / "topology.json"), time.process_time())
    return page_of(hour)


def test_it_has_every_job_and_what_stayed_unknown(page):
    for number in range(4):
        assert f"| job-{number} | 4 | 16 |" in page
    assert "job-0: a step takes 3.6" in page
    assert "Servers: 16 in jobs, 0 with traffic and no job, 2 idle." in page


def test_the_committed_page_has_the_sections_of_the_template(page):
    committed = (REFERENCE / "production.md").read_text(encoding="utf-8")
    sections = [line for line in page.splitlines() if line.startswith("#")]
    assert [line for line in committed.splitlines() if line.startswith("#")] == sections
    assert "](production-ports.png)" in committed
    assert (REFERENCE / "production-ports.png").stat().st_size > 10_000


def test_couples_count_only_servers_that_both_rails_have():
    assert agreement({1: 0, 2: 0, 3: 1}, {1: 5, 2: 6, 4: 5}) == (1, 1)


SPINES = ("spine0", "spine1", "spine2")


def job(dp: int, pp: int, tp: int) -> tuple[pd.DataFrame, dict[str, list[dict[str, str]]]]:
    """Ranks with a server and a leaf for each replica of a stage, and their topology."""
    ranks = pd.DataFrame(
        {"job": "job", "dp": d, "pp": p, "tp": t, "ep": 0, "cp": 0,
         "server": f"s{d}{p}", "address": f"a{d}{p}{t}"}
        for d, p, t in product(range(dp), range(pp), range(tp))
    )  # fmt: skip
    leaves = "leaf" + ranks["server"].str[1:]
    ends = [
        {"address": a, "switch": leaf} for a, leaf in zip(ranks["address"], leaves, strict=True)
    ]
    tiers = dict.fromkeys(leaves, "leaf") | dict.fromkeys(SPINES, "spine")
    return ranks, {
        "endpoints": ends,
        "switches": [{"name": name, "tier": tier} for name, tier in tiers.items()],
    }


@pytest.mark.parametrize(
    ("sizes", "kind", "name", "expected"),
    [
        ((3, 2, 1), "address", "a000", True),
        ((2, 4, 1), "address", "a000", False),  # stages are no peers
        ((2, 1, 4), "address", "a000", False),  # ranks in lockstep are no peers
        ((3, 1, 2), "server", "s00", True),
        ((2, 1, 2), "server", "s00", False),
        ((3, 1, 1), "link", "a000|leaf00", True),
        ((2, 1, 1), "link", "a000|leaf00", False),
        ((1, 2, 1), "link", "leaf00|spine0", True),
        ((1, 2, 1), "switch", "spine2", True),
        ((2, 1, 1), "switch", "leaf00", False),
        ((3, 1, 1), "switch", "leaf00", True),
        ((8, 1, 1), "job", "job", False),
    ],
)
def test_peers_do_the_same_for_the_same_job(
    sizes: tuple[int, int, int], kind: str, name: str, expected: bool
) -> None:
    ranks, topology = job(*sizes)
    fault = pd.Series({"culprit_kind": kind, "culprit": name})
    assert has_peers(fault, "job", ranks, topology) is expected
