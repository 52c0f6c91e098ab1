"""The comparison of captures and twins, and bounds on their differences.

The bounds leave room for the draws of a seed. ``results/reference/twins.md`` names the differences
outside the bounds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evaluation.twins import likeness
from evaluation.twins.likeness import BARE, CONTROL, DATA, GAPS_MS
from evaluation.twins.page import silences, windows
from prism_sim.toolkit import Run, load_scenario, simulate

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests" / "fixtures" / "captures"
MS = 1_000_000
CASES = ["b_dp4pp2", "c_two_jobs", "a2_ddp4"]


def flow_table(*records: tuple[int, int, int, str]) -> pd.DataFrame:
    """Start [ms], end [ms], payload and source port name; all from one host to another."""
    frame = pd.DataFrame(records, columns=["start_ns", "end_ns", "payload", "port"])
    frame[["start_ns", "end_ns"]] *= MS
    frame["src"], frame["dst"], frame["protocol"] = "a", "b", 6
    frame["src_port"] = frame.pop("port").map(ord)
    frame["dst_port"], frame["packets"], frame["bytes"] = 1, 1, frame["payload"] + 52
    return frame


def test_a_longer_gap_joins_records_of_a_shorter_one() -> None:
    """Silences of 3, 6 and 3 ms on one connection; another one in between is left alone."""
    fine = flow_table((0, 1, 10, "x"), (4, 5, 20, "x"), (5, 6, 5, "y"), (11, 12, 30, "x"),
                      (15, 16, 40, "x"))  # fmt: skip
    joined = likeness.coarser(fine, 3 * MS).sort_values(["src_port", "start_ns"])
    assert joined["payload"].tolist() == [30, 70, 5]
    assert (joined["start_ns"] // MS).tolist() == [0, 11, 5]
    assert (joined["end_ns"] // MS).tolist() == [5, 16, 6]
    assert joined["packets"].tolist() == [2, 2, 1]
    assert len(likeness.coarser(fine, 2.9 * MS)) == 5
    assert sorted(likeness.coarser(fine, 6 * MS)["payload"]) == [5, 100]


def test_silence_counts_from_the_latest_end() -> None:
    """The second record is inside the first; the third starts 1 ms after the end of the first."""
    fine = flow_table((0, 10, 10, "x"), (2, 3, 20, "x"), (11, 12, 30, "x"))
    assert likeness.coarser(fine, MS)["payload"].tolist() == [60]


def test_contents_and_quantiles() -> None:
    table = flow_table(
        (0, 1, 0, "x"), (9, 9, 48, "x"), (20, 23, 10_000, "x"), (40, 45, 30_000, "x")
    )
    found = likeness.counts(table)
    assert found == {"records": 4, DATA: 2, CONTROL: 1, BARE: 1, "share small": 0.5}
    assert likeness.sizes(table)["50%"] == 20_000
    assert likeness.durations(table) == pytest.approx({"10%": 3.2, "50%": 4.0, "90%": 4.8})


fitted = pytest.mark.parametrize("both", CASES[:2], indirect=True, scope="module")
"""All twins but a2_ddp4, for which only the layout was measured: its sizes agree less well."""


@pytest.fixture(scope="module", params=CASES)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, likeness.Observation, likeness.Observation]:
    """A capture and its twin, of a seed that the reference table does not use."""
    case = request.param
    capture, twin = Run(CAPTURES / case), Run(tmp_path_factory.mktemp(case))
    simulate(load_scenario(ROOT / "scenarios" / "twins" / f"{case}.yaml", {"seed": 11}), twin)
    real = likeness.read(capture, capture.folder / "flows_gap1ms.parquet")
    return case, real, likeness.read(twin)


RECORDS = {  # by idle gap [ms]: what the twin's record count may be off, of the real one
    "b_dp4pp2": {1: 0.08, 2: 0.06, 5: 0.16, 10: 0.08},
    "c_two_jobs": {1: 0.15, 2: 0.15, 5: 0.09, 10: 0.06},
    "a2_ddp4": {1: 0.12, 2: 0.10, 5: 0.40, 10: 0.12},
}


def test_record_counts_fall_with_the_idle_gap_as_in_the_capture(both) -> None:
    case, real, twin = both
    for gap_ms, bound in RECORDS[case].items():
        ours, theirs = (len(likeness.coarser(s.flows, gap_ms * MS)) for s in (twin, real))
        assert abs(likeness.relative_error(ours, theirs)) < bound, gap_ms


def test_the_share_of_small_records(both) -> None:
    _, real, twin = both
    for gap_ms in GAPS_MS:
        found = [
            likeness.counts(likeness.coarser(s.flows, gap_ms * MS))["share small"]
            for s in (twin, real)
        ]
        assert abs(found[0] - found[1]) < 0.1, gap_ms


@fitted
def test_sizes_of_records_with_data(both) -> None:
    _, real, twin = both
    for gap_ms in GAPS_MS:
        ours, theirs = (
            likeness.sizes(likeness.coarser(s.flows, gap_ms * MS)) for s in (twin, real)
        )
        assert ours["10%"] == pytest.approx(theirs["10%"], rel=0.01)
        assert ours["50%"] == pytest.approx(theirs["50%"], rel=0.01)
        assert ours["90%"] == pytest.approx(theirs["90%"], rel=0.5)


def test_payload_of_every_pair_that_moves_tensors(both) -> None:
    """To a thousandth: gradients, activations and words are all accounted for; so are headers."""
    _, real, twin = both
    ours, theirs = (likeness.by_pair(s, s.flows) for s in (twin, real))
    assert set(ours.index) == set(theirs.index)
    data = [key for key in theirs.index if key[0] != "dp, against data"]
    assert np.allclose(ours.loc[data, "payload"], theirs.loc[data, "payload"], rtol=1e-3)
    assert np.allclose(ours.loc[data, "bytes"], theirs.loc[data, "bytes"], rtol=2e-3)


@fitted
def test_records_a_pair_and_step(both) -> None:
    """At 5 ms the twins have too many records against data; the page gives the reason."""
    _, real, twin = both
    for gap_ms, bound in ((5, 0.5), (10, 0.25)):
        ours, theirs = (
            likeness.by_pair(s, likeness.coarser(s.flows, gap_ms * MS)).groupby("role")["records"]
            for s in (twin, real)
        )
        assert ours.mean().to_dict() == pytest.approx(theirs.mean().to_dict(), rel=bound)


def test_steps_take_as_long(both) -> None:
    _, real, twin = both
    assert twin.period_s == pytest.approx(real.period_s, rel=0.08)


@pytest.fixture
def run(tmp_path):
    """Two ranks of one stage; the second all-reduce is requested while the first one runs."""
    folder = Run(tmp_path)
    ranks = pd.DataFrame({"job": "A", "rank": [0, 1], "address": ["a", "b"], "pp": 0})
    spans = pd.DataFrame(
        [(0, 10, 50), (1, 20, 51), (0, 10, 90), (1, 20, 91)], columns=["rank", "start_ns", "end_ns"]
    )
    spans[["start_ns", "end_ns"]] *= MS
    spans = spans.assign(job="A", step=0, kind="all_reduce")
    (tmp_path / "truth").mkdir()
    ranks.to_parquet(tmp_path / "truth" / "ranks.parquet")
    spans.to_parquet(tmp_path / "truth" / "spans.parquet")
    return folder


def test_an_all_reduce_runs_when_the_last_has_come_and_the_one_before_is_over(run):
    found = windows(run)
    assert (found["start_ns"] // MS).tolist() == [20, 51]
    assert (found["end_ns"] // MS).tolist() == [50, 90]


def test_silences_are_those_between_records_that_reach_into_it(run):
    """Pauses of 8 (before the first), 3 and 1.5 ms in the first all-reduce, none in the second."""
    times = [(5, 12), (20, 30), (33, 40), (41.5, 70), (95, 96)]
    flows = pd.DataFrame(times, columns=["start_ns", "end_ns"]) * MS
    flows = flows.astype("int64").assign(
        src="a", dst="b", src_port=1, dst_port=2, payload=9, job="A", pair="A0-A1",
        role="dp, with data",
    )  # fmt: skip
    found = silences(run, flows)
    assert found.loc["A", 0, 0, "dp, with data"].tolist() == [2, 1, 0]
    assert found.loc["A", 0, 1, "dp, with data"].tolist() == [0, 0, 0]
