"""Findings: outliers by the k-sigma rule, the slow part, the culprit, and the cost."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism import Diagnosis
from llmprism.io.flows import FlowTable
from llmprism.io.topology import parse_topology
from llmprism.methods.paper.findings import diagnose_faults
from llmprism.methods.paper.sigma import COLUMNS, k_sigma, stretches
from llmprism.model import Finding, Groups, Jobs, Pairs, Spans, Steps, Timeline
from small_jobs import found, join_worlds, make_world, rows_world

STEP_NS = (8 + 2 - 1) * 60_000_000  # (m + p - 1)(tf + tb) of the default plan


def changed(world: Any, flows: pd.DataFrame) -> Any:
    ordered = flows.sort_values("start_ns", kind="stable").reset_index(drop=True)
    return type(world)(ordered, world.topology, world.ranks, world.steps, world.kinds)


def test_a_healthy_job_has_no_finding() -> None:
    assert found(make_world(steps=30)).findings.empty


def test_a_slow_replica_is_one_finding_about_its_steps() -> None:
    """Replica 2 computes at half speed in steps 12 and 13; all ranks of the job wait."""
    world = make_world(steps=30, slow={(2, 12): 2.0, (2, 13): 2.0})
    findings = found(world).findings
    assert len(findings) == 1
    one = findings.iloc[0]
    assert (one["level"], one["symptom"], one["cause"]) == ("step", "slow_step", "unknown")
    assert (one["culprit_kind"], one["culprit"]) == ("job", "job-0")
    assert (one["first_step"], one["last_step"]) == (12, 13)
    evidence = json.loads(one["evidence"])
    assert set(evidence["addresses"]) == set(world.ranks["address"])
    assert evidence["affected"] == evidence["of"] == len(world.ranks)
    times = world.steps.assign(length=world.steps["end_ns"] - world.steps["start_ns"])
    length = times.pivot_table(index="step", columns="address", values="length")
    excess = length.loc[[12, 13]].median(axis=1).sum() - 2 * length.loc[20].median()
    assert one["cost"] == pytest.approx(excess, rel=1e-3)
    assert one["magnitude"] == pytest.approx(
        length.loc[[12, 13]].median(axis=1).mean() / length.loc[20].median(), rel=1e-3
    )
    assert one["start_ns"] == times.loc[times["step"] == 12, "start_ns"].min()
    assert one["end_ns"] == times.loc[times["step"] == 13, "end_ns"].max()
    assert 0.9 < one["confidence"] < 1


LENGTH, RANKS = 1_000_000_000, 64


def late(
    losses: dict[int, int], ranks: int = RANKS, uneven: dict[int, int] | None = None
) -> list[Finding]:
    """Findings of a job in whose step 7 some ranks lose time [ns], by rank.

    Every other step of the ranks in ``uneven`` is longer, step 7 among them.
    """
    rows = [(rank, step) for rank in range(ranks) for step in range(20)]
    address, step = np.array(rows).T
    lost = np.array([losses.get(rank, 0) for rank in range(ranks)])[address] * (step == 7)
    lost += np.array([(uneven or {}).get(rank, 0) for rank in range(ranks)])[address] * (step % 2)
    start = step * 2 * LENGTH
    end = start + LENGTH + lost
    steps = Steps(address.astype(np.int32), step, start, end, start, end, np.ones(len(rows)))
    ends = [{"address": f"n{i}", "server": f"s{i}"} for i in range(ranks)]
    topology = parse_topology({"endpoints": ends})
    none = np.empty(0, dtype=np.int64)
    code, kind = none.astype(np.int32), none.astype(np.int8)
    flows = FlowTable(none, none, code, code, none, code, topology.addresses, [])
    return diagnose_faults(
        flows,
        topology,
        Jobs(np.zeros(ranks, dtype=np.int32), 1),
        Pairs(code, code, code, kind, kind, none.astype(float), none, none, code),
        Timeline(steps, lambda: iter([Spans(code, kind, none, none)]), none),
        Groups(code, kind, none, code, none),
    )


def test_equally_late_ranks_show_no_culprit() -> None:
    (one,) = late(dict.fromkeys(range(48), LENGTH))
    assert (one.culprit_kind, one.culprit) == ("job", "job-0")
    assert (one.evidence["affected"], one.evidence["of"]) == (48, 64)
    assert one.evidence["addresses"] == [f"n{i}" for i in range(48)]  # all of them
    assert (one.magnitude, one.cost) == (2.0, LENGTH)
    assert (one.first_step, one.last_step) == (7, 7)


def test_a_rank_that_lost_far_more_than_all_others_is_the_culprit() -> None:
    (one,) = late(dict.fromkeys(range(48), LENGTH) | {5: 3 * LENGTH})
    assert (one.culprit_kind, one.culprit) == ("address", "n5")
    assert (one.evidence["affected"], one.evidence["of"]) == (48, 64)
    assert one.cost == 3 * LENGTH


def test_a_rank_without_an_alarm_of_its_own_is_no_culprit() -> None:
    """Rank 2 loses more than rank 9 in step 7, as in every other step, so it raises no alarm."""
    (one,) = late({9: LENGTH}, uneven={2: 9 * LENGTH})
    assert one.culprit_kind == "job"
    assert one.evidence["addresses"] == ["n9"]


def test_two_ranks_with_the_same_loss_are_not_distinguished() -> None:
    (one,) = late({3: LENGTH, 9: LENGTH})
    assert one.culprit_kind == "job"
    assert one.evidence["addresses"] == ["n3", "n9"]


def test_separate_episodes_are_separate_findings() -> None:
    world = make_world(steps=40, slow={(0, 10): 2.0, (0, 30): 2.0})
    findings = found(world).findings
    assert findings[["first_step", "last_step"]].to_numpy().tolist() == [[10, 10], [30, 30]]


@pytest.mark.parametrize(("steps", "fires"), [(10, False), (11, True)])
def test_trap_2_a_short_job_is_a_blind_spot(steps: int, fires: bool) -> None:
    world = make_world(steps=steps, slow={(0, 5): 10.0})
    assert (not found(world).findings.empty) == fires


def test_trap_2_a_fault_in_an_eighth_of_the_steps_is_a_blind_spot() -> None:
    slow = {(0, step): 3.0 for step in range(10, 15)}
    assert found(make_world(steps=40, slow=slow)).findings.empty


def test_faults_of_one_job_are_not_laid_to_another() -> None:
    slow_rank = make_world(name="b", steps=30, slow={(1, 20): 2.0})
    well = make_world(name="a", steps=30, start_ns=1_700_000_000_100_000_000)
    diagnosis = found(join_worlds(slow_rank, well))
    assert diagnosis.findings["job"].tolist() == ["job-0"]
    (evidence,) = diagnosis.findings["evidence"].map(json.loads)
    assert set(evidence["addresses"]) <= set(slow_rank.ranks["address"])


def slow_group(world: Any, stage: int, steps: range, factor: float) -> Any:
    """Stretch the DP flows of a stage in some steps, about the start of each burst."""
    planned, flows = world.flows, world.flows.copy()
    of_stage = world.ranks.set_index("address")["stage"]
    dp = flows["src"].map(of_stage) == flows["dst"].map(of_stage)
    truth = world.steps[world.steps["stage"] == stage].groupby("step").first()
    for step in steps:
        begin, end = truth.loc[step, "start_ns"], truth.loc[step, "end_ns"]
        hit = dp & (flows["src"].map(of_stage) == stage) & planned["start_ns"].between(begin, end)
        first = planned.loc[hit, "start_ns"].min()
        for column in ("start_ns", "end_ns"):
            stretched = first + (planned.loc[hit, column] - first) * factor
            flows.loc[hit, column] = stretched.astype("int64")
    return changed(world, flows)


def test_a_slow_dp_group_is_named() -> None:
    world = slow_group(make_world(pp=12, dp=2, micro=12), 7, range(5, 8), 3.0)
    findings = found(world).findings.query("level == 'group'")
    assert len(findings) == 1
    one = findings.iloc[0]
    assert (one["symptom"], one["culprit_kind"]) == ("slow_group", "group")
    assert (one["first_step"], one["last_step"]) == (5, 7)
    members = world.ranks.query("stage == 7")["address"]
    assert set(json.loads(one["evidence"])["addresses"]) == set(members)
    assert one["magnitude"] == pytest.approx(3.0, rel=0.01)
    groups = (
        found(world)
        .groups.query("kind == 'dp'")
        .assign(name=lambda g: g["job"] + "/dp-" + g["group"].astype(str))
    )
    assert set(groups[groups["name"] == one["culprit"]]["address"]) == set(members)


def test_trap_2_ten_groups_are_too_few() -> None:
    world = slow_group(make_world(pp=10, dp=2, micro=10), 7, range(5, 8), 3.0)
    assert found(world).findings.query("level == 'group'").empty


def star(leaves: int, slow: int | None, gbps: float | None = 400) -> tuple[Any, list[Any]]:
    """One DP pair of servers below each leaf; flows through leaf ``slow`` take 4x as long."""
    addresses = [f"{side}{i}" for i in range(leaves) for side in "ab"]
    topology = {
        "endpoints": [{"address": a, "server": a, "switch": f"leaf{a[1:]}"} for a in addresses],
        "switches": [{"name": f"leaf{i}", "tier": "leaf"} for i in range(leaves)],
        "links": [{"a": a, "b": f"leaf{a[1:]}", "gbps": gbps} for a in addresses],
    }
    # One job: a chain of small flows joins the pairs, all of them DP.
    rows = []
    for step in range(12):
        for i in range(leaves):
            for bucket, size in enumerate((4_000_000, 8_000_000, 6_000_000)):
                start = step * 1_000_000_000 + bucket * 2_000_000
                length = 200_000 * (4 if i == slow else 1)
                rows.append((start, start + length, f"a{i}", f"b{i}", size, f"leaf{i}"))
                rows.append((start, start + length, f"b{i}", f"a{i + 1}", size, None))
    return topology, [row for row in rows if row[3] != f"a{leaves}"]


def found_rows(topology: dict[str, Any], rows: list[Any]) -> Diagnosis:
    return found(rows_world(rows, topology))


def test_a_switch_with_slow_flows_is_named() -> None:
    findings = found_rows(*star(leaves=12, slow=5)).findings.query("level == 'switch'")
    assert findings[["symptom", "culprit_kind", "culprit"]].to_numpy().tolist() == [
        ["low_switch_bandwidth", "switch", "leaf5"]
    ]
    one = findings.iloc[0]
    assert (one["first_step"], one["last_step"]) == (0, 11)
    assert one["magnitude"] == pytest.approx(0.25)
    busy = 2 * 2_000_000 + 800_000
    assert one["cost"] == pytest.approx(12 * busy * 0.75)
    assert json.loads(one["evidence"])["tier"] == "leaf"


@pytest.mark.parametrize("leaves", [6, 10])
def test_trap_2_few_switches_are_a_blind_spot(leaves: int) -> None:
    assert found_rows(*star(leaves=leaves, slow=5)).findings.query("level == 'switch'").empty


def crowd(pairs: int, gbps: float | None) -> tuple[Any, list[Any]]:
    """Two leaves and a spine with room for four flows at line rate; all pairs cross it."""
    addresses = [f"{side}{i}" for i in range(pairs) for side in "ab"]
    topology = {
        "endpoints": [{"address": a, "server": a} for a in addresses],
        "switches": [{"name": "spine", "tier": "spine"}],
        "links": [{"a": a, "b": "hub", "gbps": 100} for a in addresses]
        + [{"a": "hub", "b": "spine", "gbps": gbps}],
    }
    topology["switches"].append({"name": "hub", "tier": "hub"})
    rows = []
    for step in range(6):
        for i in range(pairs):
            for bucket, size in enumerate((4_000_000, 8_000_000, 6_000_000)):
                start = step * 1_000_000_000 + bucket * 2_000_000
                rows.append((start, start + 1_000_000, f"a{i}", f"b{i}", size, "?|spine|unheard"))
                rows.append((start, start + 1_000_000, f"b{i}", f"a{(i + 1) % pairs}", size))
    return topology, rows


@pytest.mark.parametrize(("pairs", "crowded"), [(4, False), (5, True)])
def test_a_switch_with_more_flows_than_it_can_carry_is_named(pairs: int, crowded: bool) -> None:
    findings = found_rows(*crowd(pairs, gbps=400)).findings
    contended = findings[findings["symptom"] == "switch_contention"]
    assert contended["culprit"].tolist() == (["spine"] if crowded else [])
    if crowded:
        one = contended.iloc[0]
        assert one["magnitude"] == pytest.approx(5 / 4)
        assert (one["first_step"], one["last_step"]) == (0, 5)


def test_overlapping_flows_of_one_pair_count_once() -> None:
    topology, rows = crowd(4, gbps=400)
    half = [(start + 500_000, end + 500_000, *rest) for start, end, *rest in rows]
    findings = found_rows(topology, [*rows, *half]).findings
    assert findings[findings["symptom"] == "switch_contention"].empty


def test_without_a_known_rate_the_limit_comes_from_the_data() -> None:
    """Pairs below leaves 6 to 11 cross leaf 5 as well: it has seven pairs at once, others one."""
    topology, rows = star(leaves=12, slow=None, gbps=None)
    detour = {f"leaf{i}": f"leaf{i}|leaf5" for i in range(6, 12)}
    led = [(*row[:5], detour.get(row[5], row[5])) for row in rows]
    findings = found_rows(topology, led).findings
    contended = findings[findings["symptom"] == "switch_contention"]
    assert contended["culprit"].tolist() == ["leaf5"]
    assert contended["magnitude"].tolist() == [7.0]


def test_without_paths_no_switch_is_accused() -> None:
    topology, rows = star(leaves=12, slow=5)
    bare = [row[:5] for row in rows]
    assert found_rows(topology, bare).findings.query("level == 'switch'").empty


def test_stretches_join_consecutive_steps_of_one_culprit() -> None:
    table = pd.DataFrame(0, index=range(6), columns=COLUMNS)
    table["culprit"] = [1, 1, 1, 2, 2, 1]
    table["step"] = [3, 4, 6, 5, 6, 5]
    joined = [(s["culprit"].iloc[0], s["step"].tolist()) for s in stretches(table)]
    assert joined == [(1, [3, 4, 5, 6]), (2, [5, 6])]
    assert list(stretches(table.iloc[:0])) == []
    np.testing.assert_array_equal(
        [len(s) for s in stretches(table.assign(job=[0, 0, 0, 0, 0, 1]))], [2, 1, 2, 1]
    )


def one_sample(values: list[float], **how: float) -> list[int]:
    numbers = np.array(values, dtype=np.float64)
    return np.flatnonzero(k_sigma(numbers, np.zeros(numbers.size, int), **how).flagged).tolist()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_trap_1_the_printed_sigma_is_zero(values: list[float]) -> None:
    printed = math.fsum(x - math.fsum(values) / len(values) for x in values) / len(values)
    assert printed == pytest.approx(0, abs=1e-6)


def test_sigma_is_the_population_standard_deviation() -> None:
    values = np.array([2.0, 4, 4, 4, 5, 5, 7, 9])  # mean 5, standard deviation exactly 2
    out = k_sigma(values, np.zeros(8, int))
    np.testing.assert_allclose(out.distance, (values - 5) / 2)


@pytest.mark.parametrize(("n", "fires"), [(5, False), (10, False), (11, True), (30, True)])
def test_trap_2_no_outlier_fires_below_eleven(n: int, fires: bool) -> None:
    """One of n values is at most sqrt(n - 1) sigma from the mean: 3 for n = 10."""
    assert one_sample([1.0] * (n - 1) + [1e6]) == ([n - 1] if fires else [])


@pytest.mark.parametrize(("hit", "fires"), [(9, True), (10, False), (25, False)])
def test_trap_2_an_equal_fault_of_a_tenth_is_never_found(hit: int, fires: bool) -> None:
    values = [1.0] * (100 - hit) + [50.0] * hit
    assert bool(one_sample(values)) == fires


def test_the_rule_watches_one_side() -> None:
    high, low = [10.0] * 20 + [90.0], [10.0] * 20 + [1.0]
    assert one_sample(high) == [20]
    assert one_sample(low) == []
    assert one_sample(low, sign=-1.0) == [20]
    assert one_sample(high, sign=-1.0) == []


def test_equal_values_never_fire() -> None:
    assert one_sample([3.3] * 50) == []


def test_rounding_never_fires() -> None:
    assert one_sample([1e9] * 30 + [1e9 + 2], resolution=2.0) == []
    assert one_sample([1e9] * 30 + [1e9 + 3], resolution=2.0) == [30]


def test_samples_are_kept_apart_and_normal_leaves_outliers_out() -> None:
    values = np.array([1.0] * 12 + [5.0] + [100.0, 101.0])
    sample = np.array([0] * 13 + [2, 2])
    out = k_sigma(values, sample)
    assert np.flatnonzero(out.flagged).tolist() == [12]
    np.testing.assert_allclose(out.normal, [1.0] * 13 + [100.5, 100.5])


def test_confidence_follows_cantelli() -> None:
    out = k_sigma(np.array([0.0] * 99 + [1.0]), np.zeros(100, int))
    assert out.confidence[-1] == pytest.approx(0.99)  # sqrt(99) sigma out
    assert (out.confidence[:-1] < 0.02).all()
