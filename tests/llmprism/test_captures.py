"""Real captures: the published method with its weaknesses.

These figures are measurements, not goals. PyTorch's gloo backend connects every rank with every
other rank, TCP sends acknowledgements, and silence ends records. Pairs therefore have many sizes,
so PP pairs get the type DP (traps 7 and 8), and the refinement joins the rest (trap 4).
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from llmprism import Diagnosis
from llmprism.pipeline import diagnose

CAPTURES = Path(__file__).parents[1] / "fixtures" / "captures"
CASES = ["b_dp4pp2", "c_two_jobs", "d_fault_rank_link"]


@pytest.fixture(
    scope="module", params=[(c, f) for c in CASES for f in ("", "_gap2ms")], ids="".join
)
def case(request: pytest.FixtureRequest) -> tuple[Path, Diagnosis]:
    name, cut = request.param
    folder = CAPTURES / name
    flows, topology = folder / f"flows{cut}.parquet", folder / "topology.json"
    return folder, diagnose(flows, topology, method="paper")


def truth(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder / "truth" / f"{name}.parquet")


def test_look_ups_at_an_unknown_resolver_are_set_aside(case: tuple[Path, Diagnosis]) -> None:
    _, diagnosis = case
    assert diagnosis.intake.set_aside == {"address unknown to the topology": 16}
    assert list(diagnosis.intake.unknown_addresses) == ["10.255.255.53"]


def test_tenants_are_separated(case: tuple[Path, Diagnosis]) -> None:
    folder, diagnosis = case
    expected = truth(folder, "ranks").groupby("job")["address"].agg(frozenset)
    found = diagnosis.jobs.groupby("job")["address"].agg(frozenset)
    assert set(found) == set(expected)


def test_traps_4_and_8_pipelines_read_as_data_parallel(case: tuple[Path, Diagnosis]) -> None:
    folder, diagnosis = case
    both = truth(folder, "pairs").merge(diagnosis.pairs, on=["src", "dst"], suffixes=("", "_found"))
    assert len(both) == len(truth(folder, "pairs"))
    assert set(both[both["kind"] == "pp"]["kind_found"]) == {"dp"}
    assert diagnosis.groups.query("kind == 'pp'").empty


def test_no_rank_gets_the_right_number_of_steps(case: tuple[Path, Diagnosis]) -> None:
    folder, diagnosis = case
    steps = truth(folder, "steps").merge(truth(folder, "ranks"), on=["job", "rank"])
    true = steps.groupby("address")["step"].nunique()
    found = diagnosis.steps.groupby("address")["step"].nunique()
    assert set(found.index) == set(true.index)
    assert (found != true).all()
