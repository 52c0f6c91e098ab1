"""Studies of operations: own causes, intervals in steps, sweeps, differences, spares and money."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from prism_common.errors import UserError
from prism_sim.operations import results, running, theory
from prism_sim.operations.job import Job, failures_of
from prism_sim.operations.reading import read_operations
from prism_sim.operations.study import Study

DAY_S = 86_400.0
POLICY: dict[str, Any] = {
    "name": "requeue",
    "checkpoint": {"kind": "sync", "stall_s": 30, "interval": 1800},
    "detection": {"kind": "timeout", "error_s": 0},
    "localisation": {"kind": "flows", "takes_s": 0},
    "recovery": {"kind": "requeue", "requeue_s": 600},
}
STANDBY = {**POLICY, "name": "standby", "recovery": {"kind": "standby", "swap_s": 60}}
CRASH = {"name": "crash", "per_server_day": 0.01, "part": "none"}


def study_of(**changes: Any) -> Study:
    values = {"servers": 100, "days": 60, "seeds": 4, "policies": [POLICY]}
    return Study.model_validate({**values, "failures": {"causes": [CRASH]}, **changes})


def rows_of(study: Study) -> pd.DataFrame:
    return results.policies(study, map(running.simulate, running.tasks_of(study)))


def test_own_causes_come_at_their_own_rates() -> None:
    causes = [CRASH, {**CRASH, "name": "rare", "per_server_day": 0.0025}, "HDFS"]
    study = study_of(failures={"causes": causes, "per_server_day": 0.0075}, days=3650)
    names = pd.Series([failure.cause.name for failure in failures_of(study, 1)]).value_counts()
    assert study.mttf_s == theory.mttf_s(100, 0.02)
    days = 100 * 3650
    assert (names / days).to_dict() == pytest.approx(
        {"crash": 0.01, "rare": 0.0025, "HDFS": 0.0075}, rel=0.1
    )


@pytest.mark.parametrize(
    ("failures", "complaint"),
    [
        ({"causes": [CRASH, CRASH]}, "two causes are called 'crash'"),
        ({"causes": [CRASH], "per_server_day": 1}, "leave out per_server_day"),
        ({"causes": ["flood"]}, "no cause is called flood"),
    ],
)
def test_causes_are_checked(failures: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        study_of(failures=failures)


def test_a_failure_of_the_fabric_ends_when_its_part_is_out_of_service() -> None:
    uplink = {"name": "uplink", "per_server_day": 0.01, "part": "fabric", "drain_s": 900}
    search = {"localisation": {"kind": "pairing", "takes_s": 120}}
    policies = [{**STANDBY, **search}]
    study = study_of(failures={"causes": [uplink]}, policies=policies, days=1000)
    runs = [Job(study, study.policies[0], seed).run() for seed in range(4)]
    assert {s for ledger, _ in runs for s in ledger.localise_s} == {120}, "its place is looked for"
    assert {s for ledger, _ in runs for s in ledger.recover_s} == {60}, "no server is replaced"
    kept = sum(progress.work_s for _, progress in runs) / (4 * study.days * DAY_S)
    ideal = theory.ettr(1800, 30, 120 + 900 + 60, study.mttf_s)
    assert kept == pytest.approx(ideal, abs=0.004)


def test_an_interval_may_be_a_number_of_steps() -> None:
    steps = {
        "kind": "sync",
        "stall_s": 30,
        "interval": {"kind": "steps", "every": 180, "step_s": 10},
    }
    table = rows_of(study_of(policies=[POLICY, {**POLICY, "name": "steps", "checkpoint": steps}]))
    found = table.groupby("policy")["ettr"].agg(list)
    assert found["steps"] == found["requeue"]


def test_any_two_policies_are_compared_on_the_same_failures() -> None:
    third = {**STANDBY, "name": "slow swap", "recovery": {"kind": "standby", "swap_s": 300}}
    table = rows_of(study_of(policies=[POLICY, STANDBY, third]))
    found = results.differences(table).set_index(["policy", "to"])
    ettr = table.groupby("policy")["ettr"].mean()
    assert set(found.index) == {
        ("standby", "requeue"), ("slow swap", "requeue"), ("slow swap", "standby"),
    }  # fmt: skip
    for (policy, to), row in found.iterrows():
        assert row["difference"] == pytest.approx(ettr[policy] - ettr[to])
    assert found.loc[("slow swap", "standby"), "difference"] < 0


def test_the_closed_form_stands_beside_what_was_simulated() -> None:
    study = study_of(days=1000)
    means = results.means(rows_of(study))
    (ideal,) = results.beside(study, means)["closed_form"]
    assert ideal == theory.ettr(1800, 30, 600, study.mttf_s)
    assert means["ettr"].iloc[0] == pytest.approx(ideal, abs=0.004)


def test_spares_and_lost_hours_have_a_price() -> None:
    study = study_of(policies=[POLICY, STANDBY], gpu_hour_price=2)
    means = results.means(rows_of(study))
    found = results.beside(study, means)
    assert found["standby_servers"].tolist() == [0, study.policies[1].standby(100)]
    hours = found["standby_servers"] * 24 * 60 * 8
    assert (found["money"] - 2 * (means["lost_gpu_hours"] + hours)).abs().max() < 1e-6
    assert results.beside(study_of(), results.means(rows_of(study_of())))["money"].isna().all()


def test_a_sweep_has_every_combination_and_falls_with_servers(tmp_path: Path) -> None:
    over = {"servers": [50, 400], "policies.*.checkpoint.interval": [600, 1800, 7200]}
    document = {
        "servers": 1, "days": 60, "seeds": 2, "policies": [POLICY, STANDBY],
        "failures": {"causes": [CRASH]}, "sweep": {"over": over},
    }  # fmt: skip
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(document))
    study = read_operations(file)
    assert isinstance(study, Study)
    found = results.sweep_means(study, list(running.run_sweep(study, tmp_path / "points", 1)))
    assert len(found) == 2 * 3 * 2
    wide = found.pivot_table(
        index=["policies.*.checkpoint.interval", "policy"], columns="servers", values="ettr"
    )
    assert (wide[50] > wide[400]).all()


@pytest.mark.parametrize(
    ("over", "complaint"),
    [
        ({"policies.7.name": ["a", "b"]}, "policies has 1 items, .* no item '7'"),
        ({"days": [1, -1]}, "with days -1"),
        ({"servers": list(range(1, 402))}, "more than 400"),
    ],
)
def test_a_sweep_is_checked(tmp_path: Path, over: dict[str, Any], complaint: str) -> None:
    document = {"servers": 9, "days": 60, "policies": [POLICY], "sweep": {"over": over}}
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(UserError, match=complaint):
        read_operations(file)
