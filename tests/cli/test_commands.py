"""The output, files and exit code of each subcommand."""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from calling import call
from llmprism import pipeline
from llmprism.verdict import Reason, RecordsVerdict
from prism_common.errors import Problem, UserError
from prism_sim import __version__
from prism_sim.cli import app
from prism_sim.commands.session import CANNOT_TELL
from prism_sim.faults import KINDS
from prism_sim.loading.bundled import bundled
from prism_sim.scenario.presets import PRESETS
from prism_sim.score import CATALOGUE
from prism_sim.score.encoding import flatten
from prism_sim.toolkit import load_scenario

pytestmark = pytest.mark.usefixtures("empty_folder")
EVERY_COMMAND = sorted(get_command(app).commands)


@pytest.mark.parametrize("command", [[], *([name] for name in EVERY_COMMAND)])
def test_every_command_has_help_worth_reading(command: list[str]) -> None:
    for option in ("-h", "--help"):
        result = call(*command, option)
        assert result.exit_code == 0
        assert not re.search(r"<[\w\[\] ]+>", result.stdout), "a type of Python"
        assert all(len(line) <= 80 for line in result.stdout.splitlines())
        assert not command or f"Example: prism-sim {command[0]} " in " ".join(result.stdout.split())
    assert call(*command, "--version").stdout == f"prism-sim {__version__}\n"


@pytest.mark.parametrize("topic", [[], ["faults"], ["failures"], ["figures"]])
def test_lists_fit_80_columns(topic: list[str]) -> None:
    lines = call("list", *topic).stdout.splitlines()
    assert max(map(len, lines)) <= 80


def test_a_blank_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("new", " ").exit_code == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["run"],
        ["run", "tiny/pair", "--sed", "3"],
        ["run", "tiny/pair", "--seed", "-3"],
        ["run", "tiny/pair", "--seed", "x"],
        ["run", "tiny/pair", "--fail-under", "jobs.accuracy"],
        ["score", "x", "--fail-under", "jobs.accuracy=high"],
        ["score", "x", "--fail-under", "jobs.accuracy=nan"],
        ["score", "x", "--fail-under", "jobs.accuracy>1"],
        ["diagnose", "flows.parquet"],
    ],
)
def test_a_wrong_call_is_a_matter_of_usage(arguments: list[str]) -> None:
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage:" in result.stderr


@pytest.mark.usefixtures("pair")
def test_a_scenario_is_simulated_into_its_own_folder() -> None:
    result = call("simulate", "pair.yaml", "--seed", "7")
    assert result.exit_code == 0
    folder = Path("results/pair/7")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["seed"] == manifest["scenario"]["seed"] == 7
    assert manifest["timings_s"]["simulate"] > 0
    assert manifest["peak_memory_bytes"] > 2**20
    assert (folder / "flows.parquet").exists()
    assert f"run: {folder}\n" in result.stdout
    assert result.stderr.startswith("simulate: ")


def test_simulate_prints_json(pair: Path) -> None:
    result = call("simulate", str(pair), "--json", "--quiet", "--out", "here")
    facts = json.loads(result.stdout)
    assert facts["run"] == "here"
    assert facts["flows"] == "here/flows.parquet"
    assert facts["records"] > 0
    assert result.stderr == ""


def test_values_can_be_set_for_one_run(pair: Path) -> None:
    call("simulate", str(pair), "--out", "here", "--set", "jobs.0.steps=2", "--set", "name=two")
    scenario = json.loads(Path("here/manifest.json").read_text())["scenario"]
    assert (scenario["name"], scenario["jobs"][0]["steps"]) == ("two", 2)


def test_a_run_goes_through_all_stages(pair: Path, stand_ins: list[tuple[str, ...]]) -> None:
    result = call("run", str(pair), "--out", "here", "--method", "paper")
    assert result.exit_code == 0
    assert [call[0] for call in stand_ins] == ["diagnose", "score", "report"]
    assert result.stdout == "the table\nrun: here\nreport: here/report.html\n"
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == [
        "simulate", "diagnose", "score", "report",
    ]  # fmt: skip
    manifest = json.loads(Path("here/manifest.json").read_text())
    assert list(manifest["timings_s"]) == ["simulate", "diagnose", "score", "report"]
    assert manifest["method"] == "paper"


def test_a_run_prints_json(pair: Path, stand_ins: list[tuple[str, ...]]) -> None:
    result = call("run", str(pair), "--json", "--quiet")
    data = json.loads(result.stdout)
    assert data["run"] == "results/pair/0"
    assert data["score"]["jobs"]["accuracy"] == 0.5
    assert (result.stderr, len(stand_ins)) == ("", 3)


@pytest.mark.parametrize(
    ("bound", "code", "reason"),
    [
        ("jobs.accuracy=0.5", 0, ""),
        ("jobs.accuracy=0.51", 3, "jobs.accuracy is 0.5; required: at least 0.51"),
        ("timeline.step_error_mean=0.003", 0, ""),
        ("timeline.step_error_mean=0.001", 3, "is 0.002; required: at most 0.001"),
        ("timeline.step_error_bias=0.005", 3, "is -0.01; required: at most 0.005 in amount"),
        ("timeline.step_error_bias>=-0.02", 0, ""),
        ("timeline.step_error_bias>=0", 3, "is -0.01; required: at least 0"),
        ("timeline.steps_split=0", 3, "is 32; required: at most 0"),
        ("timeline.steps_split<=32", 0, ""),
        ("timeline.steps_split >= 33", 3, "is 32; required: at least 33"),
        ("timeline.coverage>=0.99", 0, ""),
        ("timeline.coverage>=0.991", 3, "is 0.99; required: at least 0.991"),
        ("timeline.coverage<=0.5", 3, "is 0.99; required: at most 0.5"),
        ("timeline.per_job.alpha.coverage=0.5", 0, ""),
        ("pairs.missing=0", 3, "is 3; required: at most 0"),
        ("faults.findings<=0", 3, "is 7; required: at most 0"),
        ("faults.false_alarms_per_1000_job_steps=5", 0, ""),
        ("faults.recall=0", 3, "faults.recall is not defined for this run"),
        ("timeline.per_job.beta.coverage=1", 1, "did you mean timeline.per_job.alpha.coverage?"),
    ],
)
def test_a_score_may_have_a_bound(
    stand_ins: list[tuple[str, ...]], bound: str, code: int, reason: str
) -> None:
    Path("here/truth").mkdir(parents=True)
    result = call("score", "here", "--quiet", "--fail-under", bound)
    assert result.exit_code == code
    assert reason in result.stderr
    assert [call[0] for call in stand_ins] == ["score"]
    assert "the table" in result.stdout


def test_a_run_can_end_with_its_score(pair: Path, stand_ins: list[tuple[str, ...]]) -> None:
    result = call("run", str(pair), "--out", "here", "--no-report")
    assert (result.exit_code, result.stdout) == (0, "the table\nrun: here\n")
    assert [call[0] for call in stand_ins] == ["diagnose", "score"]
    assert not Path("here/report.html").exists()


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        ("jobs.acuracy=1", "did you mean jobs.accuracy?"),
        ("jobs=1", "there is no figure 'jobs'"),
        ("jobs.accuracy.deep=1", "there is no figure"),
        ("meta.method=1", "there is no figure"),
        ("faults.findings=0", "always reached"),
    ],
)
@pytest.mark.parametrize("command", ["run", "score"])
def test_a_bound_that_makes_no_sense_is_refused_before_any_work(
    pair: Path, stand_ins: list[tuple[str, ...]], command: str, bound: str, reason: str
) -> None:
    Path("here").mkdir()
    target = "here" if command == "score" else str(pair)
    result = call(command, target, "--fail-under", "jobs.truw=1", "--fail-under", bound)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert "did you mean jobs.true?" in result.stderr
    assert stand_ins == []
    assert not Path("results").exists()


def test_an_unknown_method_is_refused_before_any_work(pair: Path) -> None:
    result = call("run", str(pair), "--method", "guess")
    assert result.exit_code == 1
    assert "there is no method 'guess'" in result.stderr
    assert not Path("results").exists()


def test_every_missed_bound_is_reported(pair: Path, stand_ins: list[tuple[str, ...]]) -> None:
    result = call("run", str(pair), "--quiet", "--fail-under", "jobs.accuracy=1",
                  "--fail-under", "timeline.coverage=1", "--fail-under", "jobs.true=2")  # fmt: skip
    assert result.exit_code == 3
    assert len(result.stderr.splitlines()) == 2
    assert stand_ins[-1][0] == "report"


@pytest.mark.usefixtures("stand_ins")
def test_a_rerun_replaces_only_the_run_before(pair: Path) -> None:
    call("run", str(pair), "--out", "here")
    mine = ["figures/map.png", "diagnosis/old.parquet", "truth/old.parquet", "notes.txt"]
    for name in mine:
        Path("here", name).parent.mkdir(exist_ok=True)
        Path("here", name).write_text("mine")
    assert call("simulate", str(pair), "--out", "here").exit_code == 0
    left = {path.relative_to("here").as_posix() for path in Path("here").rglob("*.*")}
    tables = ("faults", "hiccups", "layouts", "pairs", "ranks", "spans", "steps")
    truth = {f"truth/{name}.parquet" for name in tables}
    made = {"flows.parquet", "topology.json", "manifest.json", ".prism-sim.json"}
    assert left == made | truth | {*mine}
    assert all(Path("here", name).read_text() == "mine" for name in mine)
    manifest = json.loads(Path("here/manifest.json").read_text())
    assert list(manifest["timings_s"]) == ["simulate"]


@pytest.mark.usefixtures("stand_ins")
def test_a_new_score_replaces_only_the_score_and_reports_that_the_report_is_older(
    pair: Path,
) -> None:
    ran = call("run", str(pair), "--out", "here")
    assert ran.exit_code == 0, ran.exception
    report = Path("here/report.html").read_text()
    result = call("score", "here")
    assert "report.html shows an older score" in result.stderr
    assert "prism-sim report here" in result.stderr
    assert Path("here/report.html").read_text() == report
    assert Path("here/diagnosis/jobs.parquet").exists()
    timings = json.loads(Path("here/manifest.json").read_text())["timings_s"]
    assert list(timings) == ["simulate", "diagnose", "score"]


def test_report_needs_a_run(stand_ins: list[tuple[str, ...]]) -> None:
    for command in ("report", "score"):
        result = call(command, "nowhere")
        assert (result.exit_code, stand_ins) == (1, [])
        assert "nowhere: no such run folder" in result.stderr
    Path("here").mkdir()
    for command in ("report", "score"):
        result = call(command, "here")
        assert (result.exit_code, stand_ins) == (1, [])
        assert "here: there is no flows.parquet or diagnosis or truth here" in result.stderr
    Path("here/diagnosis").mkdir()
    assert call("report", "here").stdout == "report: here/report.html\ntrace: here/trace.json\n"


def test_all_that_is_wrong_with_a_scenario_is_printed_without_a_traceback() -> None:
    Path("bad.yaml").write_text("cluster: {servers: 0}\njobs: []\nsede: 4\n")
    result = call("run", "bad.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "bad.yaml:1: cluster.servers is 0" in result.stderr
    assert "bad.yaml:3: unknown key 'sede'" in result.stderr
    assert result.stderr.splitlines()[-1] == "3 problems"
    assert "Traceback" not in result.stderr
    assert not Path("results").exists()


def test_debug_adds_the_traceback() -> None:
    result = call("simulate", "nothing.yaml", "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr


def test_problems_are_json_on_request() -> None:
    result = call("simulate", "tiny/pare", "--json")
    (problem,) = json.loads(result.stdout)["problems"]
    assert (problem["where"], problem["how"]) == ("tiny/pare", "did you mean tiny/pair?")


def test_a_folder_that_cannot_be_written_is_no_bug(pair: Path) -> None:
    Path("taken").write_text("a file")
    result = call("simulate", str(pair), "--out", "taken/run")
    assert result.exit_code == 1
    assert "taken/run" in result.stderr
    assert "Traceback" not in result.stderr


def test_ctrl_c_ends_a_run_without_half_written_files(
    pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prism_sim.world import World

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(World, "run", interrupted)
    result = call("simulate", str(pair), "--out", "here")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert [path for path in Path("here").rglob("*") if path.is_file()] == []


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, pair: Path) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(import_module("prism_sim.simulate"), "simulate", broken)
    assert isinstance(call("simulate", str(pair)).exception, ZeroDivisionError)


def test_own_flows_are_diagnosed_into_their_folder_or_a_given_one(
    stand_ins: list[tuple[str, ...]],
) -> None:
    Path("capture").mkdir()
    Path("capture/manifest.json").write_text('{"network": "theirs"}')
    result = call("diagnose", "capture/my.parquet", "--topology", "capture/topo.json")
    assert result.stdout.splitlines() == [
        "diagnosis: capture/diagnosis",
        "method: paper",
        "records: 8 of 10",
        "set aside: 2 (no such address)",
        "job-0: 1 address, 3 steps, 1 finding",
        "findings: 1",
    ]
    words = "diagnose my.parquet --topology t.json --out o --method paper --json"
    result = call(*words.split())
    summary = json.loads(result.stdout)
    assert (summary["diagnosis"], summary["intake"]["kept"]) == ("o", 8)
    assert stand_ins == [
        ("diagnose", "my.parquet", "topo.json", "prism"),
        ("diagnose", "my.parquet", "t.json", "paper"),
    ]
    assert Path("o/jobs.parquet").exists()
    assert Path("capture/manifest.json").read_text() == '{"network": "theirs"}'


def test_every_stage_takes_the_folder_of_a_run(
    pair: Path, stand_ins: list[tuple[str, ...]]
) -> None:
    call("simulate", str(pair), "--out", "here", "--seed", "4")
    flows = Path("here/flows.parquet").read_bytes()
    for command in ("simulate", "diagnose", "score", "report"):
        assert call(command, "here").exit_code == 0, command
    assert [name for name, *_ in stand_ins] == ["diagnose", "score", "report"]
    assert Path("here/flows.parquet").read_bytes() == flows
    assert not Path("results").exists()
    assert call("simulate", "here", "--seed", "5").exit_code == 0
    assert Path("results/pair/5/flows.parquet").read_bytes() != flows


@pytest.mark.usefixtures("stand_ins")
def test_a_new_diagnosis_of_a_run_takes_its_old_score_away(pair: Path) -> None:
    call("run", str(pair), "--out", "here")
    call("diagnose", "here/flows.parquet", "--topology", str(Path("here/topology.json").resolve()))
    assert not Path("here/score.json").exists()
    manifest: dict[str, Any] = json.loads(Path("here/manifest.json").read_text())
    assert list(manifest["timings_s"]) == ["simulate", "diagnose"]


def test_a_user_error_of_a_stage_is_reported(
    stand_ins: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UserError(Problem("no column start_ns", "f.parquet"))

    monkeypatch.setattr("llmprism.pipeline.diagnose", refuse)
    result = call("diagnose", "f.parquet", "--topology", "t.json")
    assert (result.exit_code, stand_ins) == (1, [])
    assert result.stderr.endswith("f.parquet: no column start_ns\n")


@pytest.mark.usefixtures("pair")
def test_validate_judges_every_file() -> None:
    Path("bad.yaml").write_text("cluster: {servers: 2}\njobs: []\n")
    result = call("validate", "bad.yaml", "pair.yaml", "tiny/quickstart", "gone.yaml")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "bad.yaml: 1 problem",
        "pair.yaml: fine, 1 job on 12 of 16 GPUs, 0 faults",
        "tiny/quickstart: fine, 2 jobs on 128 of 128 GPUs, 1 fault",
        "gone.yaml: 1 problem",
    ]
    assert "bad.yaml:2: without jobs the simulation has no end" in result.stderr


@pytest.mark.usefixtures("pair")
def test_validate_warns_without_refusing() -> None:
    result = call("validate", "pair.yaml", "--set", "jobs.0.micro_batches=1")
    assert result.exit_code == 0
    assert "warning: --set jobs.0.micro_batches: 1 micro-batches leave" in result.stderr
    (verdict,) = json.loads(
        call("validate", "pair.yaml", "--set", "jobs.0.micro_batches=1", "--json").stdout
    )["scenarios"]
    assert (verdict["valid"], len(verdict["warnings"])) == (True, 1)


@pytest.mark.parametrize("name", ["mine", "mine.yaml", "deep/mine.yml"])
def test_a_new_scenario_is_valid_and_commented(name: str) -> None:
    result = call("new", name)
    path = Path(result.stdout.strip())
    assert (result.exit_code, path.stem) == (0, "mine")
    assert load_scenario(path).name == "mine"
    assert path.read_text().count("#") > 10
    assert call("validate", str(path), "--quiet").exit_code == 0


@pytest.mark.parametrize("name", ["", ".", "..", "folder/.."])
def test_a_new_scenario_needs_a_name(name: str) -> None:
    result = call("new", name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "is not a file name" in result.stderr


def test_a_new_scenario_replaces_a_file_only_with_the_option() -> None:
    Path("mine.yaml").write_text("precious")
    assert call("new", "mine").exit_code == 1
    assert Path("mine.yaml").read_text() == "precious"
    assert call("new", "mine", "--force").exit_code == 0
    assert load_scenario("mine.yaml").jobs


def test_list_names_everything_there_is() -> None:
    things = json.loads(call("list", "--json").stdout)
    kinds = {
        "faults",
        "failures",
        "effects",
        "traces",
        "routings",
        "schedules",
        "strategies",
        "habits",
        "methods",
    }
    bundles = {"scenarios", "studies", "operations"}
    assert set(things) == {*bundles, "policies", "campaigns", "models", *kinds}
    assert {"detection: diagnoser", "recovery: standby"} <= set(things["policies"])
    assert list(things["scenarios"]) == list(bundled())
    assert (set(things["models"]), set(things["faults"])) == (set(PRESETS), set(KINDS))
    assert "paper" in things["methods"]
    assert {"ecmp", "flowlet", "adaptive", "spray"} == set(things["routings"])
    assert {"1f1b", "gpipe"} <= set(things["schedules"])
    assert {"ddp", "zero3"} <= set(things["strategies"])
    assert "checkpoint" in things["habits"]
    assert "sampling" in things["effects"]
    mixture = "46.7 billion parameters (12.9 a token: 2 of 8 experts), 32 layers of width 4096"
    assert things["models"]["mixtral-8x7b"] == mixture
    assert all(about for section in things.values() for about in section.values())
    text = call("list").stdout
    assert all(f"  {name} " in text for section in things.values() for name in section)


def test_list_prints_the_catalogue_of_figures() -> None:
    figures = json.loads(call("list", "figures", "--json").stdout)["figures"]
    split = next(one for one in figures if one["figure"] == "timeline.steps_split")
    assert (split["unit"], split["better"]) == ("count", "lower")
    text = " ".join(call("list", "figures").stdout.split())
    assert all(one["figure"] in text and one["about"] in text for one in figures)


def test_list_prints_one_section() -> None:
    assert set(json.loads(call("list", "faults", "--json").stdout)) == {"faults"}
    result = call("list", "fault")
    assert result.exit_code == 1
    assert "did you mean faults?" in result.stderr


def test_schema_prints_the_language() -> None:
    schema = json.loads(call("schema").stdout)
    assert {"cluster", "jobs", "faults"} <= set(schema["properties"])


def test_a_file_in_the_folder_is_preferred_to_a_bundled_one(pair: Path) -> None:
    Path("tiny").mkdir()
    pair.rename("tiny/quickstart")
    assert "1 job on 12 of 16 GPUs" in call("validate", "tiny/quickstart").stdout


@pytest.mark.slow
def test_the_whole_of_it_for_real() -> None:
    """Simulated, diagnosed, scored and rendered; then step by step, with the same score."""
    assert call("run", "tiny/pair", "--seed", "3", "--quiet").exit_code == 0
    folder = Path("results/pair/3")
    whole = json.loads((folder / "score.json").read_text())
    assert whole["jobs"]["accuracy"] == 1
    assert (folder / "report.html").stat().st_size > 1000
    flows = (folder / "flows.parquet").read_bytes()

    steps = [
        ("simulate", "tiny/pair", "--seed", "3"),
        ("diagnose", f"{folder}/flows.parquet", "--topology", f"{folder}/topology.json"),
        ("score", str(folder), "--fail-under", "jobs.accuracy=1"),
        ("report", str(folder)),
    ]
    assert [call(*step).exit_code for step in steps] == [0, 0, 0, 0]
    assert (folder / "flows.parquet").read_bytes() == flows
    assert json.loads((folder / "score.json").read_text()) == whole
    timings = json.loads((folder / "manifest.json").read_text())["timings_s"]
    assert list(timings) == ["simulate", "diagnose", "score", "report"]


def test_an_idle_cluster_runs_to_its_report() -> None:
    result = call("run", "workloads/idle", "--quiet", "--json")
    assert result.exit_code == CANNOT_TELL  # there is no record to tell anything from
    assert json.loads(result.stdout)["score"]["jobs"] == {
        "true": 0, "found": 0, "exact": 0, "accuracy": None,
    }  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(bundled()))
def test_every_bundled_scenario_runs_to_its_report(name: str) -> None:
    result = call("run", name, "--quiet", "--json")
    content = json.loads(result.stdout)
    can_tell = content["verdict"]["can_tell"]
    assert result.exit_code == (0 if can_tell else CANNOT_TELL), result.stderr
    assert Path(content["report"]).stat().st_size > 10_000
    figures = {key for key, value in flatten(content["score"]).items() if value is not None}
    assert [name for name in figures if CATALOGUE.find(name) is None] == ["meta.schema"]


def test_a_fault_that_never_begins_is_warned_about_on_stderr(pair: Path) -> None:
    fault = "  - {kind: slow_switch, switch: leaf000, factor: 0.5, from_s: 1000}\n"
    pair.write_text(f"{pair.read_text()}faults:\n{fault}")
    result = call("simulate", str(pair))
    assert result.exit_code == 0
    assert "warning: faults.0: the fault slow_switch never began" in result.stderr


@pytest.mark.usefixtures("pair", "stand_ins")
@pytest.mark.parametrize("command", [("run", "pair.yaml"), ("diagnose", "f", "--topology", "t")])
def test_insufficient_records_exit_with_4(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = Reason("long_records", "job-0", "records last 60 s, a step 2 s")
    verdict = RecordsVerdict(False, (reason,), {})
    stand_in = type(pipeline.diagnose(Path("f"), Path("t")))
    monkeypatch.setattr(stand_in, "verdict", verdict)
    result = call(*command, "--out", "here", "--quiet")
    assert result.exit_code == 4
    assert "job-0: records last 60 s, a step 2 s" in result.stderr
