"""Imagined jobs on imagined ports: who belongs together, how long steps take, and what is slow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from counted import START_NS, cumulative, edges, port, readings_of, topology
from llmprism.counters.diagnosing import CounterDiagnosis, diagnose
from llmprism.counters.readings import Readings


def members(result: CounterDiagnosis) -> set[frozenset[str]]:
    jobs = result.diagnosis.jobs
    return {frozenset(part["address"]) for _, part in jobs.groupby("job")}


def symptoms(result: CounterDiagnosis) -> list[str]:
    return result.diagnosis.findings["symptom"].tolist()


def job(servers, length_s=10.0, seed=1, spread=0.02, count=60, **options):
    """The ports of one job, read at times of their own."""
    begins = edges(count, length_s, spread, seed)
    return [
        port(f"a{server}-0", begins, late_s=0.25 * (server % 4), seconds=600.0, **options)
        for server in servers
    ]


def test_ports_with_one_rhythm_are_one_job():
    readings = cumulative(job(range(4)) + job(range(4, 8), length_s=13.0, seed=2, count=46))
    result = diagnose(readings, topology(9))
    halves = [frozenset(f"a{s}-0" for s in part) for part in (range(4), range(4, 8))]
    assert members(result) == set(halves)
    assert [round(r.period_ns / 1e9) for r in result.rhythms] == [10, 13]


def test_jobs_of_one_volume_and_step_length_are_parted_by_their_delays():
    begins = [edges(240, 10.0, 0.03, seed) for seed in (1, 2)]
    ports = [port(f"a{s}-0", begins[s // 4], late_s=0.13 * s, seconds=2300.0) for s in range(8)]
    assert len(members(diagnose(cumulative(ports), topology(8)))) == 2


def test_stages_with_other_volumes_are_one_job_with_roles():
    large, small = job(range(3), size=3e9), job(range(3, 6), size=1e9)
    result = diagnose(cumulative(large + small), topology(6))
    assert len(members(result)) == 1
    by_role = result.diagnosis.jobs.groupby("role")["in_bytes"].median()
    assert by_role.tolist() == pytest.approx([3e9, 1e9], rel=0.05)


def test_single_steps_are_those_of_the_job():
    begins = edges(60, 10.0, 0.05, seed=3)
    ports = [port(f"a{s}-0", begins, late_s=0.1 * s, seconds=590.0) for s in range(6)]
    steps = diagnose(cumulative(ports), topology(6)).diagnosis.steps
    found_s = (steps[steps["address"] == "a0-0"]["end_ns"].to_numpy() - START_NS) / 1e9
    near = np.abs(found_s[:, None] - begins).min(axis=1)
    assert len(found_s) >= 55
    assert near.max() < 0.9  # less than a reading


def test_a_reader_of_storage_is_in_no_job():
    reader = [port("a4-0", edges(60, 10.0, 0.02, 1), size=1e6, received=1e9, seconds=600.0)]
    result = diagnose(cumulative(job(range(4)) + reader), topology(5))
    assert members(result) == {frozenset(f"a{s}-0" for s in range(4))}
    assert result.servers["idle"] == ["s4"]


def test_steps_of_two_refreshes_are_unknown_and_the_interval_is_named():
    result = diagnose(cumulative(job(range(4), length_s=1.1, count=540, spread=0.2)), topology(4))
    lines = "\n".join(result.diagnosis.verdict.lines())
    assert result.diagnosis.steps.empty
    assert "counters that are new every 100 ms would show steps" in lines or not members(result)


def test_a_beat_of_short_steps_with_even_readings_is_no_step():
    """Steps of 1.1 s that are read each second look like steps of 11 s."""
    begins = edges(540, 1.1, 0.0, seed=1)
    ports = [port(f"a{s}-0", begins, seconds=590.0) for s in range(4)]
    result = diagnose(cumulative(ports), topology(4))
    assert [rhythm.period_ns for rhythm in result.rhythms] == [0] * result.jobs.count
    assert result.diagnosis.steps.empty


def test_long_steps_are_no_beat_although_all_ports_are_read_at_once():
    begins = edges(60, 10.0, 0.02, seed=1)
    ports = [port(f"a{s}-0", begins, seconds=590.0) for s in range(4)]
    result = diagnose(cumulative(ports), topology(4))
    assert result.rhythms[0].period_ns == pytest.approx(10e9, rel=0.02)


def test_an_average_step_without_single_ones_names_the_interval_that_shows_them():
    result = diagnose(cumulative(job(range(4), length_s=4.0, count=150)), topology(4))
    lines = "\n".join(result.diagnosis.verdict.lines())
    assert result.rhythms[0].period_ns == pytest.approx(4e9, rel=0.02)
    assert result.diagnosis.verdict.can_tell
    assert result.diagnosis.steps.empty
    assert "single steps are unknown: counters are new every 1.00 s; every 66" in lines


def test_a_job_that_becomes_slower_is_a_finding_with_its_steps():
    begins = edges(60, 10.0, 0.01, seed=4)
    begins[31:] += 2.0 * np.arange(1, 31).clip(max=12)
    ports = [port(f"a{s}-0", begins, late_s=0.2 * s, seconds=620.0) for s in range(4)]
    result = diagnose(cumulative(ports), topology(4))
    assert symptoms(result) == ["slow_steps"]
    row = result.diagnosis.findings.iloc[0]
    assert row["last_step"] - row["first_step"] + 1 == pytest.approx(12, abs=2)
    assert row["magnitude"] == pytest.approx(2 / 12, abs=0.03)
    assert row["culprit_kind"] == "job"


def test_a_healthy_job_has_no_finding():
    assert symptoms(diagnose(cumulative(job(range(6))), topology(6))) == []


def test_a_job_that_stops_within_a_step_is_a_finding():
    ports = []
    for each in job(range(4)):
        late = each.time_ns > START_NS + 323 * 10**9
        stop = {n: np.where(late, v[~late][-1], v) for n, v in each.values.items()}
        ports.append(replace(each, values=stop))
    begins = edges(60, 10.0, 0.02, 1)
    into = (323 - begins[begins < 323][-1]) / 10
    result = diagnose(cumulative(ports), topology(4))
    assert ("hang" in symptoms(result)) == (0.75 < into < 0.98)  # bursts are the last 0.3 of a step


def test_a_pause_is_a_finding_with_its_time():
    begins = edges(60, 10.0, 0.01, seed=5)
    begins[30:] += 60.0
    ports = [port(f"a{s}-0", begins, late_s=0.2 * s, seconds=640.0, busy=0.9) for s in range(4)]
    pause = begins[29], begins[30]
    ports = [
        replace(p, values={n: _held(p.time_ns, v, *pause) for n, v in p.values.items()})
        for p in ports
    ]
    result = diagnose(cumulative(ports), topology(4))
    assert "pause" in symptoms(result)


def _held(time_ns, values, from_s, to_s):
    """The same counter, that moves between two times only at the end."""
    inside = (time_ns >= START_NS + from_s * 1e9) & (time_ns < START_NS + (to_s - 2) * 1e9)
    return np.where(inside, values[~inside & (time_ns < START_NS + from_s * 1e9)][-1], values)


def test_an_idle_nic_beside_busy_ones_is_a_finding():
    begins = edges(60, 10.0, 0.02, 1)
    names = [f"a{s}-{n}" for s in range(5) for n in range(2) if (s, n) != (3, 1)]
    ports = [port(name, begins, late_s=0.1 * k, seconds=600.0) for k, name in enumerate(names)]
    idle = readings_of("a3-1", np.arange(0, 600.0), np.full(600, 5))
    result = diagnose(cumulative([*ports, idle]), topology(5, nics=2))
    rows = result.diagnosis.findings
    assert rows[["symptom", "culprit"]].to_numpy().tolist() == [["idle_port", "a3-1"]]


def test_a_nic_whose_bursts_last_longer_is_a_finding():
    begins = edges(40, 15.0, 0.01, 1)
    ports = [
        port(f"a{s}-0", begins, late_s=0.1 * s, seconds=600.0, busy=0.4 if s == 2 else 0.25)
        for s in range(8)
    ]
    rows = diagnose(cumulative(ports), topology(8)).diagnosis.findings
    assert rows[["symptom", "culprit"]].to_numpy().tolist() == [["long_bursts", "a2-0"]]


def test_errors_of_one_port_are_a_finding():
    ports = job(range(4))
    values = [dict(p.values) | {"in_errors": np.zeros(p.time_ns.size, np.int64)} for p in ports]
    values[1]["in_errors"] = np.arange(ports[1].time_ns.size)
    ports = [replace(p, values=v) for p, v in zip(ports, values, strict=True)]
    rows = diagnose(cumulative(ports), topology(4)).diagnosis.findings
    assert rows[["symptom", "cause", "culprit"]].to_numpy().tolist() == [
        ["in_errors", "lossy_link", "a1-0"]
    ]


def test_a_hole_of_all_ports_changes_neither_jobs_nor_steps():
    ports = job(range(4)) + job(range(4, 8), length_s=13.0, seed=2, count=46)
    cut = []
    for each in ports:
        kept = (each.time_ns < START_NS + 200 * 10**9) | (each.time_ns > START_NS + 260 * 10**9)
        values = {name: column[kept] for name, column in each.values.items()}
        cut.append(replace(each, time_ns=each.time_ns[kept], values=values))
    result = diagnose(cumulative(cut), topology(8))
    assert len(members(result)) == 2
    assert [round(r.period_ns / 1e9) for r in result.rhythms] == [10, 13]


def test_refreshes_coarser_than_readings_change_nothing():
    begins = [edges(60, 10.0, 0.03, 1), edges(46, 13.0, 0.03, 2)]
    ports = []
    for server in range(8):
        fine = port(f"a{server}-0", begins[server // 4], every_s=0.5, seconds=590.0)
        last = ((fine.time_ns - START_NS) // (2 * 10**9)) * 4
        values = {name: column[last] for name, column in fine.values.items()}
        ports.append(replace(fine, values=values))
    result = diagnose(cumulative(ports), topology(8))
    assert result.curves.resolution_ns == 2 * 10**9
    assert len(members(result)) == 2
    assert [round(r.period_ns / 1e9) for r in result.rhythms] == [10, 13]


def test_unknown_ports_are_set_aside_and_counted():
    readings = cumulative([*job(range(4)), port("elsewhere", edges(60, 10, 0.02, 9))])
    intake = diagnose(readings, topology(4)).diagnosis.intake
    assert intake.set_aside == {"ports that the topology does not have": 300}
    assert intake.unknown_addresses == {"elsewhere": 300}


def test_no_reading_at_all_is_no_crash():
    result = diagnose(Readings("cumulative", []), topology(2))
    assert result.diagnosis.verdict.exit_code == 4
    assert result.diagnosis.verdict.lines()[-1] == "no port has usable readings"


def test_ports_without_a_common_rhythm_are_no_job():
    ports = [port(f"a{s}-0", edges(60, 10.0, 0.3, seed=s), seconds=500.0) for s in range(4)]
    result = diagnose(cumulative(ports), topology(4))
    assert members(result) == set()
    assert result.diagnosis.verdict.exit_code == 4
    assert "have no rhythm in common" in result.diagnosis.verdict.lines()[-1]
