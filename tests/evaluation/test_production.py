"""The page of the production hour: a function of what was measured, here of the fixture."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

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
    for picture in ("production-ports.png", "production-spectra.png"):
        assert f"]({picture})" in committed
        assert (REFERENCE / picture).stat().st_size > 10_000


def test_couples_count_only_servers_that_both_rails_have():
    assert agreement({1: 0, 2: 0, 3: 1}, {1: 5, 2: 6, 4: 5}) == (1, 1)
