"""The page: whole, self-contained, safe against names, small, and always the same."""

import json
import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from prism_sim.render import render_run
from prism_sim.render.figures import FIGURES
from prism_sim.render.report import render_report, shows_another_score
from prism_sim.toolkit import paint

VOID = {"meta", "br", "img", "hr", "link", "input"}
HOSTILE = '<img src=x onerror="alert(1)">&amp;'


class Page(HTMLParser):
    """Text, tags and attributes of a page; fails on tags that do not match."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text.append(data)

    def words(self):
        return " ".join(" ".join(self.text).split())


PLAIN = {name: paint.figure(1, 1) for name in FIGURES}
"""Figures without content, for tests of the text beside them: drawing takes most of the time."""


def page_of(run, drawn=PLAIN):
    render_report(run, drawn)
    return Page(run.report.read_text(encoding="utf-8"))


def test_the_page_has_every_section_and_figure(run, drawn):
    page = page_of(run, drawn)
    text = page.words()
    for title in ("Injected faults", "Figures", "Score", "Findings", "Scenario", "How to read"):
        assert title in text
    shown = {value for name, value in page.attributes if name == "id"}
    assert set(FIGURES) <= shown
    assert page.tags.count("svg") + page.tags.count("img") == len(FIGURES)


def test_the_page_shows_the_scores(run):
    text = page_of(run).words()
    assert "2 / 2 jobs exact" in text
    assert "1 / 1 faults detected" in text
    assert "slow gpu 10.0.0.2 01:36:43.000 to 01:36:45.000 UTC A yes , finding 7 yes 0 1" in text
    assert "1 of 1 detected" in text


def test_the_page_shows_the_evidence_of_each_finding(run):
    text = page_of(run).words()
    assert '{ "sigma": 4.2 }' in text
    assert "true" in text
    assert "false" in text


def test_the_page_needs_no_network(run, drawn):
    """Its scripts are in the page; the only file that it names is the trace beside it."""
    page = page_of(run, drawn)
    assert not {"iframe", "object"} & set(page.tags)
    for name, value in page.attributes:
        if name in {"src", "href", "xlink:href"}:
            assert value.startswith(("#", "data:")) or value == "trace.json"
    assert not re.search(r"@import|url\((?!['\"]?#)", run.report.read_text())


def test_names_from_users_stay_text(make_run):
    evidence = json.dumps({"note": HOSTILE})
    run = make_run(job_names={"A": HOSTILE, "B": "B"}, evidence=evidence)
    run.write_json(run.manifest, {"name": HOSTILE, "scenario": {"description": HOSTILE}})
    page = page_of(run, None)
    assert "img" not in page.tags
    assert "onerror" not in dict(page.attributes)
    assert page.words().count("<img src=x") >= 4


def test_evidence_that_is_no_json_or_very_long(make_run):
    assert "not { json" in page_of(make_run("broken", evidence="not { json")).words()
    long = page_of(make_run("long", evidence=json.dumps(["x" * 50] * 1000)))
    assert len(long.words()) < 30_000


def test_records_set_aside_are_reported(run):
    note = {"method": "paper", "rows": 1200, "kept": 1190}
    note |= {"set_aside": {"no address": 10}, "unknown_addresses": {"10.9.9.9": 3}}
    run.write_json(run.diagnosis_folder / "intake.json", note)
    text = page_of(run).words()
    assert "Of 1,200 flow records, 1,190 were diagnosed" in text
    assert "no address 10" in text
    assert "10.9.9.9 (3)" in text
    run.write_json(run.diagnosis_folder / "intake.json", note | {"kept": 1200, "set_aside": {}})
    assert "None was set aside." in page_of(run).words()


def test_a_scenario_is_summed_up(run):
    job = {"name": "A", "model": {"name": "llama-7b"}, "dp": 2, "pp": 2, "tp": 1}
    job |= {"micro_batches": 8, "steps": 6}
    cluster = {"servers": 6, "gpus_per_server": 1, "nics_per_server": 1, "nic_gbps": 400.0}
    scenario = {"jobs": [job], "cluster": cluster | {"fabric": {"kind": "rail"}}}
    run.write_json(run.manifest, {"name": "x", "seed": 4, "scenario": scenario})
    text = page_of(run).words()
    assert "A llama-7b 2 2 1 8" in text
    assert "6 servers, 1 GPUs and 1 NICs of 400 Gbit/s each, rail fabric" in text
    assert "seed 4" in text


@pytest.mark.parametrize(
    "lacking",
    [
        {"truth": False},
        {"diagnosis": False},
        {"truth": False, "diagnosis": False, "flows": False, "topology": False},
    ],
)
def test_a_page_of_an_incomplete_run(make_run, lacking):
    run = make_run(**lacking)
    render_run(run)
    assert "There is no score" in page_of(run).words()


@pytest.mark.slow
def test_the_page_is_small_and_the_same_each_time(run):
    render_report(run)
    first = run.report.read_bytes()
    render_report(run)
    assert run.report.read_bytes() == first
    assert len(first) < 3_000_000
    assert first.count(b"<figure") == len(FIGURES)


def test_a_dense_figure_becomes_an_image(run, drawn, monkeypatch):
    monkeypatch.setattr("prism_sim.render.report._DENSE", 100)
    page = page_of(run, drawn)
    assert page.tags.count("img") == len(FIGURES)
    assert "svg" not in page.tags


def test_render_run_writes_everything_and_reports_progress(run):
    reported = []
    render_run(run, lambda fraction, what: reported.append((fraction, what)))
    pictures = {path.name for path in (run.folder / "figures").iterdir()}
    assert pictures == {f"{name}.png" for name in FIGURES}
    assert run.report.exists()
    assert run.trace.exists()
    fractions = [fraction for fraction, _ in reported]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)


def own_flows(make_run):
    """Flows, topology and diagnosis of anyone: no truth, no score, no manifest."""
    run = make_run("own", truth=False)
    run.manifest.unlink()
    return run


def test_a_diagnosis_of_ones_own_flows_makes_a_page(make_run):
    run = own_flows(make_run)
    write_note(run)
    page = rendered(run, None)
    for words in ("Jobs found", "job0", "dp 4, pp 4", "1.00 s", "long_step", "10.0.0.2",
                  "Records set aside", "no address", "UTC", "Cluster map"):  # fmt: skip
        assert words in page, words
    for absent in ("Injected faults", "matched step", "Not drawn", "<h2>Scenario</h2>"):
        assert absent not in page, absent


def test_a_figure_without_data_is_one_line_and_not_an_empty_figure(make_run):
    run = make_run("bare", truth=False, flows=False, topology=False)
    page = rendered(run, None)
    assert "Not drawn. No cluster map" in page
    assert page.count("<figure") == 3


def test_an_address_is_text_and_never_markup(make_run):
    run = own_flows(make_run)
    bad = "<script>alert(1)</script>"
    jobs = run.diagnosis("jobs")
    run.write_diagnosis("jobs", jobs.assign(job=jobs["job"].replace("job0", bad)))
    run.write_diagnosis("findings", run.diagnosis("findings").assign(culprit=bad, symptom=bad))
    page = rendered(run)
    assert bad not in page
    assert page.count("&lt;script&gt;") >= 4


def test_tables_in_the_folder_itself_are_a_diagnosis(make_run):
    run = own_flows(make_run)
    write_note(run)
    for path in list(run.diagnosis_folder.iterdir()):
        path.rename(run.folder / path.name)
    run.diagnosis_folder.rmdir()
    assert "Jobs found" in rendered(run)


def test_a_shortened_table_names_the_place_of_the_rest(make_run):
    run = own_flows(make_run)
    row = run.diagnosis("findings").iloc[[0]]
    many = pd.concat([row.assign(finding=n) for n in range(57)], ignore_index=True)
    run.write_diagnosis("findings", many.assign(evidence=json.dumps({"a": "x" * 3000})))
    page = rendered(run)
    assert "The 40 most confident of 57; all are in <code>diagnosis/findings.parquet</code>" in page
    assert "characters; all: diagnosis/findings.parquet" in page


def write_note(run):
    note = {"method": "paper", "rows": 1200, "kept": 1190, "set_aside": {"no address": 10}}
    run.write_json(run.diagnosis_folder / "intake.json", note)


def rendered(run, drawn=PLAIN):
    render_report(run, drawn)
    return run.report.read_text(encoding="utf-8")


def test_a_report_knows_whether_it_shows_the_saved_score(run):
    assert not shows_another_score(run)
    render_report(run, PLAIN)
    assert not shows_another_score(run)
    run.score.write_text(run.score.read_text() + " ")
    assert shows_another_score(run)
    render_report(run, PLAIN)
    assert not shows_another_score(run)
