"""The answers at the beginning of the page: findings of any method, with or without truth."""

import base64
import dataclasses
import json
import re

import numpy as np
import pandas as pd
import pytest

import prism_sim as ps
from llmprism.page.answers import answers
from llmprism.page.tables import Tables
from prism_sim.render.figures import FIGURES
from prism_sim.render.report import render_report
from prism_sim.toolkit import Run, paint

PLAIN = {name: paint.figure(1, 1) for name in FIGURES}
MS = 1_000_000


def made_of(run):
    return answers(Tables.of(run.folder))


def page(run):
    render_report(run, PLAIN)
    return run.report.read_text(encoding="utf-8")


def delayed(run, address="10.0.0.2", step=3, by_ms=150):
    """Let one rank compute longer in one step; all ranks of its job wait, so the step is longer."""
    spans, steps = run.diagnosis("spans"), run.diagnosis("steps")
    late = (spans["address"] == address) & (spans["step"] == step) & (spans["kind"] == "compute")
    first = spans.index[late][0]
    spans.loc[first, "end_ns"] += by_ms * MS
    job = steps["job"] == "job0"
    steps.loc[job & (steps["step"] == step), "end_ns"] += by_ms * MS
    run.write_diagnosis("spans", spans)
    run.write_diagnosis("steps", steps)


def shifted(run, steps, flows, from_ms, by_ms):
    """Let all that begins after a moment begin later: the job stood still."""
    since = run.diagnosis("steps")["start_ns"].min() + from_ms * MS
    for table in (steps, flows):
        table.loc[table["start_ns"] >= since, ["start_ns", "end_ns"]] += by_ms * MS
    run.write_diagnosis("steps", steps)
    flows.to_parquet(run.flows)


def grid(one, measure):
    """Delays [ms] of a map, shape (servers, columns)."""
    packed = one["measures"][measure]
    levels = np.frombuffer(base64.b64decode(packed["levels"]), "<u2").astype(float)
    levels[levels == 65535] = np.nan
    return levels.reshape(len(one["servers"]), one["columns"]) * packed["unit_ms"]


def test_the_page_starts_with_the_findings_and_scores_follow(run):
    text = page(run)
    order = ["What is slow", "Delay of each server", "Timeline", "Rates by leaf",
             "Computation, communication and waiting", "Jobs found", 'id="score"',
             "Injected faults", "Figures", "Findings in full"]  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_without_truth_there_is_no_score(make_run):
    text = page(make_run(truth=False))
    assert 'id="score"' not in text
    assert "There is no score" in text
    assert "What is slow" in text


def test_the_findings_that_cost_most_come_first(run):
    row = run.diagnosis("findings").iloc[[0]]
    some = [row.assign(finding=n, cost=cost * 1e9, confidence=sure)
            for n, cost, sure in ((1, 1.0, 1.0), (2, 5.0, 0.9), (3, 6.0, 0.1))]  # fmt: skip
    run.write_diagnosis("findings", pd.concat(some, ignore_index=True))
    assert [card.number for card in made_of(run)["cards"]] == [2, 1, 3]


def test_a_card_has_the_sentences_and_the_link_to_the_trace(run):
    text = page(run)
    assert "NIC 0 of server h2 stands out (long step, 2.5 times the normal value)" in text
    assert "from 01:36:43.000 UTC (step 3) to 01:36:45.000 UTC (step 4)" in text
    assert "1.00 s in 2 steps" in text
    assert 'href="trace.json" data-trace="7"' in text


def test_the_culprit_has_the_delay_and_is_outlined(run):
    """Rank 2 works 150 ms longer in step 3; the whole step is longer for all servers of its job."""
    delayed(run)
    made = made_of(run)
    one = made["data"]["maps"][0]
    assert (one["job"], one["servers"]) == ("job0", ["h0", "h1", "h2", "h3"])
    work, step = grid(one, "work"), grid(one, "step")
    assert np.argwhere(work > 1).tolist() == [[2, 3]]
    assert work[2, 3] == pytest.approx(150, rel=0.01)
    assert np.argwhere(step > 1).tolist() == [[row, 3] for row in range(4)]
    assert one["best"]["7"] == "work"
    finding = made["data"]["findings"][0]
    assert (finding["servers"], finding["direct"]) == (["h2"], True)
    assert (finding["first"], finding["last"]) == (3, 4)


def test_a_slow_transfer_is_shown_in_transfers(run):
    spans = run.diagnosis("spans")
    late = (spans["address"] == "10.0.0.2") & (spans["step"] == 3) & (spans["kind"] == "pp")
    spans.loc[spans.index[late][0], "end_ns"] += 120 * MS
    run.write_diagnosis("spans", spans)
    assert made_of(run)["data"]["maps"][0]["best"]["7"] == "transfers"


@pytest.mark.parametrize(
    ("kind", "culprit", "servers", "direct"),
    [
        ("address", "10.0.0.1", ["h1"], True),
        ("server", "h3", ["h3"], True),
        ("link", "10.0.0.1|leaf1", ["h1"], True),
        ("link", "leaf0|spine0", ["h0", "h2"], False),
        ("switch", "leaf1", ["h1", "h3"], False),
        ("group", "pp 0", ["h0", "h2"], True),
        ("stage", "job0 stage 1", ["h2"], True),
        ("job", "job0", [], False),
    ],
)
def test_every_kind_of_culprit_has_its_servers(run, kind, culprit, servers, direct):
    findings = run.diagnosis("findings").head(1).assign(culprit_kind=kind, culprit=culprit)
    run.write_diagnosis("findings", findings)
    finding = made_of(run)["data"]["findings"][0]
    assert (finding["servers"], finding["direct"]) == (servers, direct)


def test_the_timeline_shows_the_culprit_and_its_pipeline_around_the_finding(run):
    part = made_of(run)["data"]["close_ups"][0]
    assert [row["address"] for row in part["rows"]][:2] == ["10.0.0.2", "10.0.0.0"]
    assert [row["culprit"] for row in part["rows"]][:2] == [True, False]
    assert set(part["spans"]["step"]) == {2, 3, 4}
    first = min(part["spans"]["start"])
    assert first == 0
    assert part["length_ms"] == pytest.approx(3000)


def test_the_timeline_of_a_stop_shows_what_was_sent_of_the_step_that_began_again(run):
    """Ranks send in step 4 at 4.20 s; then the job stops, and makes the step a minute later."""
    findings, steps = run.diagnosis("findings").head(1), run.diagnosis("steps")
    start_ns = steps["start_ns"].min()
    stop_ns = start_ns + 4300 * MS
    run.write_diagnosis("findings", findings.assign(
        symptom="stopped", first_step=4, last_step=4, start_ns=stop_ns, end_ns=stop_ns + 60_000 * MS
    ))  # fmt: skip
    later = steps["step"] >= 4
    steps.loc[later, ["start_ns", "end_ns"]] += 60_000 * MS
    run.write_diagnosis("steps", steps)
    part = made_of(run)["data"]["close_ups"][0]
    begins_ms = part["start_ms"] + np.array(part["spans"]["start"]) / 1e3
    origin_ms = part["start_ms"] - 3000
    assert {round(at - origin_ms) for at in begins_ms if at - origin_ms > 4000} >= {4200}


def test_the_shares_of_a_server_are_those_of_its_spans(run):
    """h0: 200 + 150 + 50 ms of computation, and 40 + 40 + 100 + 150 ms of communication."""
    delayed(run)
    shares = made_of(run)["data"]["shares"][0]
    usual, inside = shares["windows"]["usual"], shares["windows"]["7"]
    assert usual[0] == pytest.approx([400, 330, 0])
    assert inside[2][0] == pytest.approx(usual[2][0] + 75)  # one of two steps is 150 ms longer


def test_the_rates_of_a_leaf_are_the_bytes_of_its_nics(run):
    leaves = made_of(run)["data"]["leaves"]
    assert leaves["names"] == ["leaf0", "leaf1"]
    flows = pd.read_parquet(run.flows)
    own = flows[flows["src"].isin(["10.0.0.0", "10.0.0.2", "10.0.0.4"])]
    total = sum(leaves["sent"][0]) * leaves["bin_ms"] / 1e3 * 1e9 / 8
    assert total == pytest.approx(own["bytes"].sum(), rel=0.02)
    assert leaves["capacity"] == [1200, 1200]  # three NICs of 400 Gbit/s
    assert leaves["cut"] is None


def test_a_long_silence_is_left_out_of_the_rates_and_no_byte_with_it(run):
    before = made_of(run)["data"]["leaves"]
    flows = pd.read_parquet(run.flows)
    shifted(run, run.diagnosis("steps"), flows, from_ms=3000, by_ms=60_000)
    leaves = made_of(run)["data"]["leaves"]
    assert leaves["cut"]["length_ms"] >= 60_000
    assert leaves["bin_ms"] < 2 * before["bin_ms"]
    moved = [sum(one["sent"][0]) * one["bin_ms"] for one in (before, leaves)]
    assert moved[1] == pytest.approx(moved[0], rel=0.02)


def healthy(run, **verdict):
    run.write_diagnosis("findings", run.diagnosis("findings").head(0))
    note = {"method": "prism", "rows": 10, "kept": 10, "set_aside": {}, "verdict": verdict}
    run.write_json(run.diagnosis_folder / "intake.json", note)


SCOPES = [{"job": job, "compared": ["ranks"], "not_judged": []} for job in ("job0", "job1")]


def test_without_findings_nothing_stands_out_only_if_all_was_compared(make_run):
    run = make_run(truth=False)
    healthy(run, can_tell=True, reasons=[], scopes=SCOPES)
    text = page(run)
    assert 'class="card calm"' in text
    assert "Nothing stands out." in text
    steps = r"each step with the other steps \(.* stand out\)"
    assert re.search(rf"Compared in job0, job1: {steps}; ranks\.", text)
    healthy(run, can_tell=True, reasons=[], scopes=[SCOPES[0] | {"not_judged": ["old faults"]}])
    text = page(run)
    assert 'class="card partly"' in text
    assert "Nothing stands out." not in text
    assert "Not judged in job0: old faults." in text
    healthy(run, can_tell=True, reasons=[], scopes=[SCOPES[0] | {"slow": ["a link is slow"]}])
    text = page(run)
    assert 'class="card doubt"' in text
    assert "Job0: a link is slow." in text


def test_without_findings_the_page_says_what_was_checked(make_run):
    run = make_run(truth=False)
    healthy(run, can_tell=True, reasons=[{"reason": "x", "job": "job1", "text": "one step"}])
    text = page(run)
    assert "Nothing stands out." not in text
    assert "2 jobs with 6 NICs" in text
    assert "12 steps" in text
    assert "Not judged: job1: one step." in text
    assert made_of(run)["data"]["close_ups"][0]["finding"] is None


def test_without_findings_the_page_names_jobs_of_few_steps(make_run):
    run = make_run(truth=False)
    healthy(run, can_tell=True, reasons=[])
    assert "too few to show what is usual" not in page(run)
    steps = run.diagnosis("steps")
    run.write_diagnosis("steps", steps[(steps["job"] != "job1") | (steps["step"] < 2)])
    assert "job1 has 2 steps: too few to show what is usual" in page(run)
    assert "job0 has" not in page(run)


def test_records_that_cannot_tell_are_no_good_news(make_run):
    run = make_run(truth=False)
    healthy(run, can_tell=False, reasons=[{"reason": "x", "job": None, "text": "records are long"}])
    text = page(run)
    assert "These records cannot tell what was slow." in text
    assert "records are long." in text
    assert "Nothing stands out" not in text


DIAGNOSED = {"findings", "maps", "close_ups", "shares"}


@pytest.mark.parametrize(
    ("lacking", "shown"),
    [
        ({"topology": False}, DIAGNOSED),
        ({"flows": False}, DIAGNOSED),
        ({"truth": False}, DIAGNOSED | {"leaves"}),
        ({"diagnosis": False}, {"leaves"}),
        ({"truth": False, "diagnosis": False, "flows": False, "topology": False}, set()),
    ],
)
def test_the_data_of_any_run_is_json_without_nan(make_run, lacking, shown):
    """What cannot be computed is empty, all else is there."""
    data = json.loads(json.dumps(made_of(make_run(**lacking))["data"], allow_nan=False))
    assert {name for name, value in data.items() if value} - {"origin_ms"} == shown


def test_missing_values_of_a_finding_are_no_error(run):
    findings = run.diagnosis("findings").astype(object)
    empty = ["first_step", "last_step", "start_ns", "end_ns", "magnitude", "cost", "confidence"]
    findings.loc[:, empty] = None
    made = answers(dataclasses.replace(Tables.of(run.folder), findings=findings))
    json.dumps(made["data"], allow_nan=False)
    card, finding = made["cards"][0], made["data"]["findings"][0]
    assert card.text.what.endswith("at an unknown time.")
    assert card.text.cost == "Its cost is unknown."
    assert (card.text.confidence, card.confidence) == ("", None)
    assert (finding["first"], finding["last"], finding["start_ms"]) == (-1, -1, 0)
    assert made["data"]["maps"][0]["best"]["7"] == "step"


def test_many_steps_and_servers_are_merged_to_the_slowest(run, monkeypatch):
    delayed(run)
    monkeypatch.setattr("llmprism.page.delays._CELLS", 12)
    one = made_of(run)["data"]["maps"][0]
    assert (one["merged"], one["columns"]) == (2, 3)
    assert np.argwhere(grid(one, "work") > 1).tolist() == [[2, 1]]


def test_of_too_many_servers_the_culprit_stays(run, monkeypatch):
    monkeypatch.setattr("llmprism.page.delays._SERVERS", 2)
    one = made_of(run)["data"]["maps"][0]
    assert "h2" in one["servers"]
    assert one["omitted"] == 2


def test_a_long_timeline_has_fewer_ranks(run, monkeypatch):
    monkeypatch.setattr("llmprism.page.close_up._SPANS", 20)
    part = made_of(run)["data"]["close_ups"][0]
    assert [row["address"] for row in part["rows"]] == ["10.0.0.2", "10.0.0.0"]


def test_the_timeline_of_a_hang_shows_its_stop(tmp_path):
    """The rank that stopped sends nothing in the step that does not end; the others still do."""
    found = ps.run("faults/hang", out=tmp_path)
    (part,) = made_of(Run(tmp_path))["data"]["close_ups"]
    stop_ns = found.diagnosis.findings["start_ns"].iloc[0]
    origin_ns = found.diagnosis.steps["start_ns"].min()
    assert part["start_ms"] + part["length_ms"] > (stop_ns - origin_ns) / 1e6
    culprit = [row["culprit"] for row in part["rows"]]
    unfinished = max(part["spans"]["step"])
    shown = zip(part["spans"]["row"], part["spans"]["step"], strict=True)
    senders = {row for row, step in shown if step == unfinished}
    assert unfinished == found.diagnosis.steps["step"].max() + 1
    assert senders == {place for place, stopped in enumerate(culprit) if not stopped}
