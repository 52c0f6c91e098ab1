"""Reference pages of real captures and of their twins are the output of their commands."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pandas as pd
import pytest

import export_fixture
from evaluation.reference import pages
from evaluation.twins import lab_twins
from evaluation.twins import page as twins

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_export_is_made_from_the_capture():
    exports = ROOT / "tests/fixtures/exports"
    content = gzip.decompress((exports / "training.ipfix.gz").read_bytes())
    assert content == export_fixture.datagrams()
    assert (exports / "cables.csv").read_text() == export_fixture.cables()


@pytest.mark.full
def test_the_reference_of_the_captures_is_the_output_of_its_command():
    assert pages.captures() == (ROOT / "results/reference/captures.md").read_text()


@pytest.mark.parametrize("method", ["paper", "prism"])
@pytest.mark.parametrize("case", ["captures/a2_ddp4", "lab/short"])
def test_rows_of_the_reference_follow_from_their_captures(case, method):
    page = (ROOT / "results/reference/captures.md").read_text()
    for row in pages.capture_rows([ROOT / "tests/fixtures" / case], method):
        assert f"| {' | '.join(row)} |\n" in page


def test_the_reference_has_every_capture_with_both_methods():
    page = (ROOT / "results/reference/captures.md").read_text()
    for folder in pages.capture_folders():
        assert len(re.findall(rf"^\| `{folder.name}` \| [25] ms \|", page, re.MULTILINE)) == 4
        jobs = pd.read_parquet(folder / "truth" / "ranks.parquet")["job"].nunique()
        exported = (folder / "flows_netflow.parquet").exists()
        rows = re.findall(rf"^\| `{folder.name}` \| [A-Z] \|", page, re.MULTILINE)
        assert len(rows) == (jobs if exported else 0)


@pytest.mark.full
def test_the_reference_of_the_twins_is_the_output_of_its_command(tmp_path):
    cases = [twins.measured(name, tmp_path) for name in twins.NAMES]
    lab = [lab_twins.compared(name, tmp_path / "lab") for name in lab_twins.cases()]
    assert twins.page(cases, lab) == (ROOT / "results/reference/twins.md").read_text()
