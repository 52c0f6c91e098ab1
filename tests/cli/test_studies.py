"""The commands with several runs: their output, files and exit codes."""

import io
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import Result

from calling import call
from prism_sim.commands.costing import cost_table
from processes import PRISM_SIM, started, wait_until

pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.fixture
def suite(pair: Path) -> Path:
    path = pair.with_name("suite.yaml")
    path.write_text("cases:\n  - {scenario: pair.yaml, seeds: [1, 2]}\n")
    return path


def regress(suite: Path, *more: str) -> Result:
    options = ["--suite", str(suite), "--reference", "held.json", "--processes", "1"]
    return call("regress", *options, *more)


@pytest.mark.slow
def test_regress_passes_with_its_own_reference(suite: Path) -> None:
    missing = regress(suite)
    assert missing.exit_code == 1
    assert "held.json: there is no reference" in missing.stderr
    first = regress(suite, "--update", "--quiet")
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout.startswith("a new reference: ")
    assert "fail" not in first.stdout
    Path("out").mkdir()
    again = regress(suite, "--junit", "out/junit.xml", "--summary", "out/summary.md")
    assert again.exit_code == 0
    assert "none moved; 2 simulated, none drifted" in again.stdout
    simulations, held = ElementTree.parse("out/junit.xml").getroot()
    assert simulations.attrib["tests"] == "2"
    assert float(simulations[0].attrib["time"]) > 0
    assert int(held.attrib["tests"]) > 5
    assert Path("out/summary.md").read_text().startswith("### prism-sim regress\n")


@pytest.mark.slow
def test_regress_tells_a_method_from_the_simulator_and_exits_with_3(suite: Path) -> None:
    suite.write_text(suite.read_text().replace("[1, 2]", "[1]"))
    regress(suite, "--update", "--quiet")
    held = json.loads(Path("held.json").read_text())
    (steps,) = [one for one in held["headlines"] if one["name"] == "step error"]
    found, steps["value"] = steps["value"], -1.0
    Path("held.json").write_text(json.dumps(held))
    result = regress(suite, "--quiet", "--summary", "summary.md")
    assert (result.exit_code, result.stderr) == (3, "")
    assert "1 lost; 1 simulated, none drifted" in result.stdout
    assert f"| step error | -1 | {found:.5g} | lost |" in Path("summary.md").read_text()
    (case,) = held["cases"].values()
    case["simulation"] |= {"digest": "", "amounts": ""}
    Path("held.json").write_text(json.dumps(held))
    result = regress(suite, "--quiet")
    assert result.exit_code == 3
    assert "the simulator has changed" in result.stdout
    data = json.loads(regress(suite, "--quiet", "--json").stdout)
    (move,) = [move for move in data["headlines"] if move["verdict"] != "same"]
    assert (move["was"], move["now"], move["by"]) == (-1.0, found, "simulator")
    update = regress(suite, "--quiet", "--update")
    assert update.exit_code == 0
    assert f"| step error | -1 | {found:.5g} | lost (simulator) |" in update.stdout
    assert regress(suite).exit_code == 0


def test_whatif_reports_the_cost_of_each_fault(pair: Path) -> None:
    fault = "  - {kind: slow_gpu, job: solo, rank: 0, factor: 0.5, from_step: 1, to_step: 2}\n"
    pair.write_text(f"{pair.read_text()}faults:\n{fault}")
    result = call("whatif", "pair.yaml", "--processes", "1", "--seed", "3")
    assert result.exit_code == 0
    assert "slow_gpu" in result.stdout
    assert "\u2026" not in result.stdout  # nothing is cut off in 80 columns
    for head in ("GPU-hours", "effective", "without"):
        assert head in result.stdout
    folder = Path("results/whatif/pair/3")
    assert f"figure: {folder}/whatif.png" in result.stdout
    assert (folder / "whatif.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {
        "as-written", "without-0-slow_gpu",
    }  # fmt: skip


def test_whatif_compares_a_change(pair: Path) -> None:
    change = ("--set", "cluster.nic_gbps=10", "--set", "cluster.nvlink_gbps=100")
    result = call("whatif", str(pair), *change, "--json", "--quiet", "--processes", "1")
    assert (result.exit_code, result.stderr) == (0, "")
    (cost,) = json.loads(result.stdout)["costs"]
    assert cost["name"] == "cluster.nic_gbps=10, cluster.nvlink_gbps=100"
    assert cost["gpu_hours"] > 0
    assert call("whatif", str(pair), *change[:2], "--quiet", "--processes", "1").exit_code == 0
    assert {path.name for path in Path("results/whatif/pair").iterdir()} == {
        "0+cluster.nic_gbps=10", "0+cluster.nic_gbps=10,cluster.nvlink_gbps=100",
    }, "the first answer is still there"  # fmt: skip


def test_whatif_from_a_run_compares_the_prediction_with_a_rerun(pair: Path) -> None:
    fault = "  - {kind: slow_gpu, job: solo, rank: 0, factor: 0.2, from_step: 1, to_step: 2}\n"
    pair.write_text(f"{pair.read_text()}faults:\n{fault}")
    words = ("run", "pair.yaml", "--no-report", "--out", "mine", "--method", "paper")
    assert call(*words).exit_code in (0, 4)  # 4: too few records for a timeline
    folder = Path("mine/diagnosis/findings.parquet")
    ranks = pd.read_parquet("mine/truth/ranks.parquet")
    finding = {"finding": 0, "level": "rank", "symptom": "slow", "cause": "slow_gpu", "job": "solo",
               "culprit_kind": "address", "culprit": ranks["address"][0], "first_step": 1,
               "last_step": 1, "start_ns": 0, "end_ns": 1, "magnitude": 0.8, "cost": 1e6,
               "confidence": 0.9, "evidence": "{}"}  # fmt: skip
    pd.DataFrame([finding]).to_parquet(folder)
    result = call("whatif", "--from", "mine", "--processes", "1")
    assert result.exit_code == 0, result.stderr
    assert f"repairing {ranks['address'][0]} would give back" in result.stdout
    found = json.loads(Path("results/whatif/pair/0+repairs/whatif.json").read_text())
    (repair,) = found["repairs"]
    assert repair["faults"] == [0]
    assert repair["rerun_s"] > 0


@pytest.mark.parametrize(
    "words", [[], ["pair.yaml", "--from", "mine"], ["--from", "mine", "--seed", "1"]]
)
def test_whatif_needs_a_scenario_or_a_run(words: list[str]) -> None:
    result = call("whatif", *words)
    assert result.exit_code == 2
    assert "either SCENARIO, or --from RUN" in " ".join(result.stderr.split())


def test_the_list_of_studies_has_their_questions() -> None:
    studies = json.loads(call("list", "studies", "--json").stdout)["studies"]
    assert studies["studies/uplink-capacity"] == "How fast must uplinks be?"
    assert all(question.endswith("?") for question in studies.values())


def test_whatif_of_a_scenario_without_faults_is_refused(pair: Path) -> None:
    result = call("whatif", str(pair))
    assert result.exit_code == 1
    assert "no faults to remove" in result.stderr


STUDY = """\
scenario: pair.yaml
grid: {jobs.0.micro_batches: [2, 4]}
seeds: [1, 2]
figures: [pairs.accuracy, truth.step_s_mean]
"""


@pytest.fixture
def study(pair: Path) -> Path:
    path = pair.with_name("study.yaml")
    path.write_text(STUDY)
    return path


@pytest.mark.usefixtures("study")
def test_sweep_writes_a_table_and_a_figure() -> None:
    result = call("sweep", "study.yaml", "--processes", "1")
    assert result.exit_code == 0
    folder = Path("results/sweeps/study")
    assert f"table: {folder}/sweep.parquet" in result.stdout
    assert "4 computed, 0 reused" in result.stderr
    assert len(pd.read_parquet(folder / "sweep.parquet")) == 4
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    again = json.loads(call("sweep", "study.yaml", "--json", "--quiet").stdout)
    assert (again["made"], again["from_before"], again["failed"]) == (0, 4, 0)


def test_sweep_exits_1_if_a_run_failed(study: Path) -> None:
    study.write_text(STUDY.replace("jobs.0.micro_batches: [2, 4]", "jobs.0.dp: [3, 30]"))
    result = call("sweep", "study.yaml", "--quiet", "--processes", "1")
    assert result.exit_code == 1
    assert "jobs.0.dp=30, seed 1, paper: " in result.stderr
    assert pd.read_parquet("results/sweeps/study/sweep.parquet")["error"].notna().sum() == 2


def test_a_study_of_very_many_runs_is_refused_at_once(study: Path) -> None:
    """A thousand million points: no list of them is made, and nothing is run."""
    tens = "".join(f"  jobs.0.a{n}: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n" for n in range(9))
    study.write_text(STUDY.replace("grid: {jobs.0.micro_batches: [2, 4]}\n", f"grid:\n{tens}")
                     .replace("[1, 2]", "[1]"))  # fmt: skip
    began = time.monotonic()
    result = call("sweep", "study.yaml", "--quiet", "--processes", "1")
    assert time.monotonic() - began < 10
    assert result.exit_code == 1
    assert "this study has 1,000,000,000 runs" in result.stderr
    assert "--yes" in result.stderr
    assert not Path("results").exists()


@pytest.mark.full  # the list of runs is read one by one, which takes long to prove
def test_a_study_of_very_many_runs_starts_at_once_if_confirmed(study: Path) -> None:
    """The first results come while nearly all points have not been looked at."""
    folder = study.parent
    seeds = list(range(20_000))
    study.write_text(STUDY.replace("[1, 2]", str(seeds)))
    with started([*SWEEP, "--yes"], folder) as process:
        wait_until(lambda: len(_points(folder)) >= 1, timeout_s=60)
        assert process.poll() is None


@pytest.mark.usefixtures("undiagnosed")
def test_a_point_file_that_is_empty_or_hollow_is_made_again() -> None:
    call("sweep", "study.yaml", "--processes", "1")
    points = sorted(Path("results/sweeps/study/points").glob("*.json"))
    before = pd.read_parquet("results/sweeps/study/sweep.parquet")
    for path, text in zip(points, ["", "{}", '{"case": "x", "figures": {}}'], strict=False):
        path.write_text(text)
    again = json.loads(call("sweep", "study.yaml", "--processes", "1", "--json").stdout)
    assert (again["made"], again["from_before"]) == (3, 1)
    pd.testing.assert_frame_equal(pd.read_parquet("results/sweeps/study/sweep.parquet"), before)


def test_an_unknown_study_is_refused_with_the_nearest() -> None:
    result = call("sweep", "studies/record-los")
    assert result.exit_code == 1
    assert "did you mean studies/record-loss?" in result.stderr


SWEEP = [*PRISM_SIM, "sweep", "study.yaml", "--processes", "2", "--out", "out"]


def _points(folder: Path) -> dict[str, int]:
    """Every finished point, and when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "out/points").glob("*.json")}


@pytest.fixture
def undiagnosed(study: Path) -> None:
    """The study without a diagnosis: for tests of files, whatever is in them."""
    study.write_text(STUDY.replace("pairs.accuracy", "truth.gpu_hours") + "methods: [none]\n")


@pytest.fixture
def long_study(study: Path) -> Path:
    study.write_text(STUDY.replace("[1, 2]", "[1, 2, 3, 4, 5]"))
    return study.parent


@pytest.mark.parametrize(
    ("signum", "code"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.full), (signal.SIGKILL, -9)],
)
def test_the_workers_of_a_stopped_sweep_end(long_study: Path, signum: int, code: int) -> None:
    with started(SWEEP, long_study) as process:
        wait_until(lambda: len(_points(long_study)) >= 2)
        process.send_signal(signum)
        _, err = process.communicate(timeout=60)  # ends when no child holds the pipes any more
    assert process.returncode == code
    assert "Traceback" not in err
    if signum == signal.SIGINT:
        assert list(long_study.rglob(".*.partial")) == []
        _resume(long_study)


def _resume(folder: Path) -> None:
    """Complete the sweep that was stopped; no point is computed again."""
    before = _points(folder)
    assert 2 <= len(before) < 10
    done = call("sweep", "study.yaml", "--processes", "1", "--out", "out")
    assert done.exit_code == 0, done.stderr
    assert f"{10 - len(before)} computed, {len(before)} reused" in done.stderr
    after = _points(folder)
    assert len(after) == 10
    assert before.items() <= after.items()


@pytest.mark.slow
def test_a_killed_sweep_resumes_repeats_nothing_and_removes_what_was_left(
    long_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = long_study / "temporary"
    temporary.mkdir()
    (temporary / "prism-sim-of-mine").mkdir()  # nothing says that a sweep made it
    with started(SWEEP, long_study, env=os.environ | {"TMPDIR": str(temporary)}) as process:
        wait_until(lambda: len(_points(long_study)) >= 2 and len(list(temporary.iterdir())) > 1)
        os.killpg(process.pid, signal.SIGKILL)  # the workers as well: none can clean up
        process.communicate(timeout=60)
    left = [path.name for path in temporary.iterdir()]
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    _resume(long_study)
    by_one = call("sweep", "study.yaml", "--processes", "1", "--out", "by-one")
    assert by_one.exit_code == 0, by_one.stderr
    by_two_and_one, by_one_alone = (Path(f"{out}/sweep.parquet") for out in ("out", "by-one"))
    assert by_two_and_one.read_bytes() == by_one_alone.read_bytes()
    assert [path.name for path in temporary.iterdir()] == ["prism-sim-of-mine"], left
    assert list(long_study.rglob(".*.partial")) == []


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    "name", ["sweep.parquet", "study.json", "sweep.png", "points/notes.txt", "points"]
)
def test_a_sweep_refuses_a_folder_with_files_of_the_user(name: str) -> None:
    mine = Path("mine") / name
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    result = call("sweep", "study.yaml", "--processes", "1", "--out", "mine")
    assert result.exit_code == 1
    assert f"{mine}: prism-sim did not write this" in result.stderr
    assert "--out" in result.stderr
    assert mine.read_text() == "years of work"
    assert [path for path in Path("mine").rglob("*") if path.is_file()] == [mine]


@pytest.mark.usefixtures("undiagnosed")
def test_a_sweep_leaves_other_files_alone_and_continues_one_without_a_record() -> None:
    command = ("sweep", "study.yaml", "--processes", "1", "--out", "mine", "--json")
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("years of work")
    assert call(*command).exit_code == 0
    record = Path("mine/.prism-sim.json")
    assert set(json.loads(record.read_text())["products"]) == {
        "sweep.parquet", "study.json", "sweep.png",
    }  # fmt: skip
    record.unlink()  # as an older version left it
    again = json.loads(call(*command).stdout)
    assert (again["made"], again["from_before"]) == (0, 4)
    assert Path("mine/notes.txt").read_text() == "years of work"


def test_a_name_of_a_figure_is_checked_before_anything_runs(study: Path) -> None:
    study.write_text(STUDY.replace("pairs.accuracy", "pairs.acuracy"))
    result = call("sweep", "study.yaml", "--processes", "1")
    assert result.exit_code == 1
    assert "study.yaml:4: no run has a figure 'pairs.acuracy'" in result.stderr
    assert "did you mean pairs.accuracy" in result.stderr
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("command", "name", "other"),
    [("sweep", "tiny/pair", "run"), ("run", "studies/record-loss", "sweep")],
)
def test_a_study_is_named_where_a_scenario_is_due_and_the_reverse(
    command: str, name: str, other: str
) -> None:
    assert f"prism-sim {other} {name}" in call(command, name).stderr


def test_no_number_of_a_table_is_broken_into_two_lines() -> None:
    """In a terminal of 80 columns."""
    job = {"job": "solo", "steps": 12345, "step_s_with": 0.061234, "step_s_without": 0.053456,
           "slower": 0.13621, "extra_s": 0.036391, "gpu_hours": 0.00012131,
           "effective_ratio_with": 0.98612, "effective_ratio_without": 0.98812}  # fmt: skip
    _, table = cost_table({"name": "change", "jobs": [job], "gpu_hours": 0.00012131})
    console = Console(file=io.StringIO(), width=80)
    console.print(table)
    numbers = "12345 0.06123 0.05346 13.62 % +0.03639 +0.0001213 98.6 % 98.8 %"
    assert f"solo {numbers}" in " ".join(console.file.getvalue().split())
