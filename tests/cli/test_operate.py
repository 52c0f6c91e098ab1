"""``prism-sim operate``: the table, the files, the errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from calling import call
from prism_sim.operations.reading import read_operations
from prism_sim.operations.running import run
from prism_sim.operations.study import Study
from prism_sim.toolkit import scenarios_folder

pytestmark = pytest.mark.usefixtures("empty_folder")
ROOT = Path(__file__).parents[2]
BUNDLED = scenarios_folder() / "operations" / "what-diagnosis-brings.yaml"
OPTIONS = ("--out", "out", "--processes", "1", "--quiet")
STUDY = """\
servers: 500
days: 30
seeds: 3
policies:
  - name: time-out
    checkpoint: {kind: async, stall_s: 2, write_s: 60}
    detection: timeout
    localisation: pairing
    recovery: requeue
  - name: diagnoser
    checkpoint: {kind: async, stall_s: 2, write_s: 60}
    detection: {kind: diagnoser, recall: 1}
    localisation: pairing
    recovery: requeue
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def table_of(study: Path) -> pd.DataFrame:
    """All replications of the study, without pictures."""
    policies = read_operations(study)
    assert isinstance(policies, Study)
    done = run(policies, Path("points"), 1)
    assert not [outcome.error for _, outcome in done if outcome.error]
    return pd.DataFrame([outcome.result for _, outcome in done])


def ratios(study: Path) -> dict[str, float]:
    means: pd.Series = table_of(study).groupby("policy", sort=False)["ettr"].mean()
    return dict(means)


def test_it_writes_a_table_and_a_picture(study: Path) -> None:
    result = call("operate", str(study), *OPTIONS)
    assert result.exit_code == 0, result.output
    table = pd.read_parquet("out/operations.parquet")
    assert list(table["policy"]) == ["time-out"] * 3 + ["diagnoser"] * 3
    assert Path("out/operations.png").read_bytes().startswith(b"\x89PNG")
    page = Path("out/operations.html").read_text()
    assert "time-out" in page
    assert not re.search(r"(src|href)=.?https?:", page)
    assert set(json.loads(Path("out/operations.json").read_text())["policies"]) == {
        "time-out",
        "diagnoser",
    }


def test_finished_replications_are_kept(study: Path) -> None:
    first = ratios(study)
    points = {path: path.stat().st_mtime_ns for path in Path("points").iterdir()}
    next(iter(points)).unlink()
    assert ratios(study) == first
    again = {path: path.stat().st_mtime_ns for path in Path("points").iterdir()}
    assert again.keys() == points.keys()
    assert sum(again[path] != points[path] for path in points) == 1


def test_each_part_of_diagnosis_brings_time(study: Path) -> None:
    def variant(**changes: float) -> float:
        data = yaml.safe_load(STUDY)
        data["policies"][1]["detection"] |= changes
        study.write_text(yaml.safe_dump(data))
        return ratios(study)["diagnoser"]

    best = variant(recall=1)
    assert variant(recall=0.5) < best
    assert variant(precision=0.3) < best
    assert variant(delay_s=900) < best
    assert variant(recall=0) == ratios(study)["time-out"]


def test_a_policy_changes_nothing_of_another(study: Path) -> None:
    both = ratios(study)
    data = yaml.safe_load(STUDY)
    del data["policies"][0]
    study.write_text(yaml.safe_dump(data))
    assert ratios(study) == {"diagnoser": both["diagnoser"]}


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("servers: 500", "servers: 0", 1, "greater than or equal to 1"),
        ("days: 30", "days: -1", 2, "greater than 0"),
        ("recall: 1", "recall: 2", 12, "less than or equal to 1"),
        ("recall: 1", "recal: 1", 12, "unknown key 'recal'"),
        ("  - name: diagnoser", "  - name: time-out", 4, "two policies"),
        ("detection: timeout", "detection: timeot", 7, "unknown kind 'timeot'"),
        ("days: 30", "days: 30\nfailures: {causes: [rust]}", 3, "no cause is called rust"),
        ("days: 30", "days: 30\nfailures: {campaign: x}", 3, "known: byterobust, acme"),
        ("write_s: 60", "write_s: 90000", 6, "policy 'time-out' cannot be met: a checkpoint takes"),
        (
            "recovery: requeue",
            "recovery: {kind: evict_group, group_servers: 501, spares: 9}",
            9,
            "larger than the job of 500",
        ),
        (
            "recovery: requeue",
            "recovery: {kind: evict_group, group_servers: 5, spares: 3}",
            9,
            "3 spares cannot replace",
        ),
        ("recovery: requeue", "recovery: []", 9, "should have at least 1 item"),
        ("days: 30", "days: 30\nworth: {of: rust}", 3, "no policy is called 'rust'"),
        ("days: 30", "days: 30\nworth: {of: time-out}", 3, "no detection of kind diagnoser"),
        (
            "days: 30",
            "days: 30\nfailures: {trace: {kind: table, file: no.csv, servers: 9}}",
            3,
            "there is no trace",
        ),
    ],
)
def test_errors_have_their_line(study: Path, old: str, new: str, line: int, what: str) -> None:
    study.write_text(STUDY.replace(old, new, 1))
    result = call("operate", str(study), *OPTIONS)
    assert result.exit_code == 1
    assert f"study.yaml:{line}: " in result.stderr
    assert what in result.stderr
    assert not Path("out").exists()


def measured(study: Path, figures: str, name: str = "mine") -> None:
    """Write a study whose diagnoser has the figures of a method, and the file of figures."""
    Path(study.parent, "measured.json").write_text(figures)
    text = STUDY.replace("kind: diagnoser, recall: 1", f"kind: diagnoser, measured: {name}")
    study.write_text(text.replace("days: 30", "days: 30\nmeasured: measured.json"))


def test_measured_figures_are_those_of_the_file(study: Path) -> None:
    found = []
    for recall in (0, 0.5, 1):
        measured(study, json.dumps({"mine": {"recall": recall, "right": 0.5}}))
        found.append(ratios(study)["diagnoser"])
    assert found == sorted(set(found))
    study.write_text(STUDY.replace("recall: 1", "recall: 0.5"))
    assert ratios(study)["diagnoser"] == found[1]


@pytest.mark.parametrize(
    ("figures", "name", "what"),
    [
        ('{"mine": {"recall": 1}}', "other", "study.yaml:13: "),
        ('{"mine": {}}', "other", "no figures of 'other' were measured\n    known: mine"),
        ('{"mine": {"right": 1}}', "mine", "of 'mine', no figure of this part was measured"),
        ('{"mine": {"recall": 7}}', "mine", "less than or equal to 1"),
        ('{"mine": 1}', "mine", "measured.json: this is no object with the figures"),
        ("{", "mine", "measured.json: not valid JSON"),
    ],
)
def test_errors_of_measured_figures(study: Path, figures: str, name: str, what: str) -> None:
    measured(study, figures, name)
    result = call("operate", str(study), *OPTIONS)
    assert result.exit_code == 1
    assert what in result.stderr


def test_curves_rise_with_recall_and_have_the_methods(study: Path) -> None:
    axes = "recall: [0, 1], precision: [0.2, 1], delay_s: [10, 1500], right: [0, 1]"
    methods = "methods: {mine: {recall: 0.5}, logs: {right: 1, localisation: logs}}"
    text = STUDY.replace("localisation: pairing", "localisation: [flows, pairing]")
    study.write_text(text + f"worth: {{of: diagnoser, {axes}, {methods}}}\n")
    result = call("operate", str(study), *OPTIONS, "--json")
    assert result.exit_code == 0, result.output
    points = pd.DataFrame(json.loads(result.stdout)["worth"])
    curves = points[points["method"] == ""].groupby(["quality", "localisation"])["ettr"]
    rises = curves.last() - curves.first()
    assert list(rises.index) == [
        ("delay_s", "flows"), ("precision", "flows"), ("recall", "flows"),
        ("right", "flows"), ("right", "logs"),
    ]  # fmt: skip
    assert rises.pop(("delay_s", "flows")) < 0
    assert (rises > 0).all()
    placed = points[points["method"] != ""]
    assert placed[["quality", "value", "method"]].to_numpy().tolist() == [
        ["recall", 0.5, "mine"],
        ["right", 1.0, "logs"],
    ]
    page = Path("out/operations.html").read_text()
    assert page.index("What diagnosis is worth") < page.index("Policies")
    assert "mine: precision, delay [s], right part" in page


JOB = """\
cluster:
  servers: 8
  gpus_per_server: 2
  nics_per_server: 2
  fabric: {kind: tor, leaf_ports: 4, spines: 2}
jobs:
  - name: train
    model: {layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048}
    dp: 8
    pp: 2
    micro_batches: 4
    steps: 12
    mfu: 0.45
    compute_jitter: 0.01
"""


def test_windows_are_opened_at_the_level_of_flows(study: Path) -> None:
    """A diagnoser finds the failure of a moment in flows, long before the policy assumes it."""
    Path(study.parent, "job.yaml").write_text(JOB)
    study.write_text(STUDY + "windows: {scenario: job.yaml, around: [hang, MFU decline, 0]}\n")
    result = call("operate", str(study), *OPTIONS, "--json")
    assert result.exit_code == 0, result.output
    hang, slow, healthy = json.loads(result.stdout)["windows"]
    assert [hang["fault"], slow["fault"], healthy["fault"]] == ["hang", "slow_gpu", None]
    assert [hang["assumed_s"], slow["assumed_s"], slow["by_hand"]] == [1800, 86_400, True]
    for window in (hang, slow):
        assert 0 < window["found_s"] < 2
        assert (window["cause"], window["right"]) == (window["fault"], True)
        place = int(window["place"].split(".")[2])  # of the scenario's 8 servers
        assert place == window["server"] * 8 // 500
    assert [one["false_alarms"] for one in (hang, slow, healthy)] == [0, 0, 0]
    assert json.loads(Path("out/windows/1/score.json").read_text())["faults"]["detected"] == 1
    assert "At the level of flows" in Path("out/operations.html").read_text()


@pytest.mark.parametrize(
    ("windows", "what"),
    [
        ("scenario: job.yaml, around: [rust]", "study.yaml:15: no cause is called rust"),
        ("scenario: job.yaml, around: [721]", "study.yaml:15: hour 721 is not one of the 720"),
        ("scenario: no.yaml, around: [0]", "study.yaml:15: there is no file and no bundled"),
        ("scenario: job.yaml, around: [0], policy: a", "study.yaml:15: no policy is called 'a'"),
        ("scenario: job.yaml, around: [0], method: a", "study.yaml:15: there is no method 'a'"),
        ("scenario: job.yaml, around: [disk]", "the first replication has no failure by disk"),
    ],
)
def test_errors_of_windows(study: Path, windows: str, what: str) -> None:
    Path(study.parent, "job.yaml").write_text(JOB)
    study.write_text(f"{STUDY}windows: {{{windows}}}\n")
    result = call("operate", str(study), *OPTIONS)
    assert result.exit_code == 1
    assert what in result.stderr
    assert not Path("out").exists()


def test_replications_end_when_the_interval_is_small(study: Path) -> None:
    study.write_text(STUDY.replace("seeds: 3", "seeds: 300\nenough: 0.004"))
    table = table_of(study)
    groups = table.groupby("policy")["ettr"]
    assert 10 <= groups.size().min() == groups.size().max() < 300
    assert (1.96 * groups.sem()).max() <= 0.004


def traced(more: str = "", beside: str = "") -> str:
    """A study whose failures are those of a trace."""
    trace = f"trace: {{kind: table, file: trace.csv, servers: 600{more}}}"
    return STUDY.replace("days: 30", f"days: 9\nfailures: {{{trace}{beside}}}")


HEAD = "server,from_days,until_days,cause\n"


def test_a_trace_is_replayed(study: Path) -> None:
    rows = "".join(f"s{n},{0.1 * n:.1f},{0.1 * n + 0.5:.1f},GPU\n" for n in range(1, 96))
    Path(study.parent, "trace.csv").write_text(HEAD + rows)
    study.write_text(traced())
    table = table_of(study)
    assert {name for lost in table["lost_by_cause"] for name in lost} == {"GPU", "checkpoint"}
    assert table["failures"].between(60, 95).all()


@pytest.mark.parametrize(
    ("rows", "beside", "what"),
    [
        ("a,1,20,GPU\na,2,3,NIC\n", "", "trace.csv:3: outages of a overlap: until 20, from 2"),
        ("a,1,20,GPU\nb,5,4,NIC\n", "", "trace.csv:3: an outage of b ends at 4, before 5"),
        ("a,-1,20,GPU\n", "", "trace.csv:2: an outage of a begins before the trace"),
        ("a,x,20,GPU\n", "", "trace.csv:2: 'x' and '20' are not both numbers"),
        ("a,1,inf,GPU\n", "", "trace.csv:2: an outage of a has no end"),
        ("a,1,20,\n", "", "trace.csv:2: an outage needs a server and a cause"),
        ("\x00\xff,1,20\n", "", "trace.csv:2: an outage needs a server and a cause"),
        ("", "", "the trace has no outages"),
        ("a,1,2,GPU\n", "", "the trace ends after 2 days, the study after 9"),
        ("a,1,20,GPU\n", ", causes: [hang]", "a trace has its own failures\n    leave out causes"),
        ("a,1,20,GPU\nb,5,5,NIC\n", "", ""),
    ],
)
def test_errors_of_traces(study: Path, rows: str, beside: str, what: str) -> None:
    Path(study.parent, "trace.csv").write_text(HEAD + rows)
    study.write_text(traced(beside=beside))
    result = call("operate", str(study), *OPTIONS)
    assert result.exit_code == (1 if what else 0), result.output
    assert what in result.stderr
    assert "Traceback" not in result.stderr


def test_overlaps_are_merged_on_demand(study: Path) -> None:
    Path(study.parent, "trace.csv").write_text(HEAD + "a,1,20,GPU\na,2,3,NIC\n")
    study.write_text(traced(", overlaps: merge"))
    merged = ratios(study)
    Path(study.parent, "trace.csv").write_text(HEAD + "a,1,20,GPU\n")
    study.write_text(traced())
    assert merged == ratios(study)


def test_a_trace_of_infinitehbd_is_read(study: Path) -> None:
    fault = {"Level": "Hardware Failure", "Class": "NIC", "Desc": "NIC Lost"}
    events = [
        {"node_id": f"n{n}", "event_time": day, "event_type": f"fault_{kind}", "fault_type": fault}
        for n in range(40)
        for day, kind in ((n / 4, "start"), (n / 4 + 0.1, "end"))
    ]
    Path(study.parent, "trace.json").write_text(json.dumps(events))
    text = traced().replace("kind: table, file: trace.csv", "kind: infinitehbd, file: trace.json")
    study.write_text(text)
    complete = table_of(study)["failures"]
    del events[41]  # the end of a fault, which then lasts until the end of the trace
    Path(study.parent, "trace.json").write_text(json.dumps(events))
    assert list(table_of(study)["failures"]) == list(complete)
    del events[0]
    Path(study.parent, "trace.json").write_text(json.dumps(events))
    result = call("operate", str(study), *OPTIONS)
    assert "event 0: a fault of n0 ends without a begin" in result.stderr


def test_servers_of_a_rack_fail_at_one_moment(tmp_path: Path) -> None:
    rows = [
        f"rack{rack}-{server},{day + 0.1524 + rack * 3.2074},{day + 0.2024 + rack * 3.2074},power"
        for day in range(0, 30, 6) for rack in (0, 1) for server in "abc"
    ]  # fmt: skip
    (tmp_path / "outages.csv").write_text("\n".join(["server,from_days,until_days,cause", *rows]))
    (tmp_path / "study.yaml").write_text(
        "description: Whole racks.\nservers: 6\ndays: 20\nseeds: 12\n"
        "failures: {trace: {kind: table, file: outages.csv, servers: 6}}\n"
        "policies:\n- name: requeue\n  detection: timeout\n  localisation: by_hand\n"
        "  recovery: requeue\n"
        "  checkpoint: {kind: async, stall_s: 2, write_s: 60, interval: daly}\n"
    )
    done = run(read_operations(tmp_path / "study.yaml"), tmp_path / "points", 1)
    assert len(done) == 12
    assert all(one.error is None for _, one in done)


def test_bundled_studies_have_names() -> None:
    result = call("operate", "operations/what-diagnosis-brinks", *OPTIONS)
    assert result.exit_code == 1
    assert "did you mean operations/what-diagnosis-brings?" in result.stderr


@pytest.mark.parametrize("path", sorted(BUNDLED.parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_bundled_studies_can_be_read(path: Path) -> None:
    assert read_operations(path).description.endswith("?")


def test_the_study_of_the_documentation_can_be_read(tmp_path: Path) -> None:
    """All its parts together are one study."""
    parts = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/operations.md").read_text(), re.DOTALL)
    (tmp_path / "study.yaml").write_text("".join(parts))
    assert isinstance(read_operations(tmp_path / "study.yaml"), Study)


def test_an_interval_may_be_a_number_of_seconds(study: Path) -> None:
    long = STUDY.replace("write_s: 60}", "write_s: 60, interval: {kind: fixed, every_s: 1800}}")
    study.write_text(long)
    expected = read_operations(study)
    study.write_text(long.replace("{kind: fixed, every_s: 1800}", "1800"))
    assert read_operations(study) == expected
