"""What all programs do if their output, memory or input ends: one line, no traceback."""

import os
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from llmprism.io.tables import DIAGNOSIS
from prism_sim.cli import app
from processes import PRISM_SIM, completed

LLMPRISM = [sys.executable, "-c", "from llmprism.cli import main; main()"]
LLMLOG = [sys.executable, "-m", "llmlog"]
ROOT = Path(__file__).parents[2]
EVALUATION = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "evaluation"]
HERE = ["flows.parquet", "--topology", "topology.json"]

PRINTING = [
    pytest.param([*PRISM_SIM, "schema"], id="schema"),
    pytest.param([*PRISM_SIM, "list"], id="list", marks=pytest.mark.slow),
    pytest.param([*PRISM_SIM, "validate", "tiny/pair"], id="validate", marks=pytest.mark.slow),
    pytest.param([*LLMPRISM, "--help"], id="llmprism"),
    pytest.param([*LLMLOG, "--version"], id="llmlog"),
    pytest.param([*EVALUATION, "--help"], id="evaluation", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("command", PRINTING)
def test_a_device_that_is_full_is_one_line(tmp_path: Path, command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = completed(command, tmp_path, stdout=full)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr.splitlines()[0]
    assert len(done.stderr.splitlines()) <= 2  # the problem and its remedy


@pytest.mark.parametrize("closed", ["1>&-", "0<&- 1>&- 2>&-"])
@pytest.mark.parametrize("command", PRINTING[:3])
def test_a_closed_stream_is_a_null_device(tmp_path: Path, command: list[str], closed: str) -> None:
    done = completed(["bash", "-c", f'"$@" {closed}', "bash", *command], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


LARGE = (
    "simulate tiny/pair",
    "sweep studies/uplink-capacity",
    "compare -m prism -m paper --scenario tiny/pair",
    "operate operations/what-diagnosis-brings",
    "regress",
)


@pytest.mark.slow
@pytest.mark.parametrize("command", [*(PRISM_SIM + one.split() for one in LARGE), LLMPRISM + HERE])
def test_too_little_address_space_is_one_line(tmp_path: Path, command: list[str]) -> None:
    done = completed(["bash", "-c", 'ulimit -v 600000; "$@"', "bash", *command], tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: not enough memory: ")
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run with its diagnosis."""
    folder = tmp_path_factory.mktemp("output")
    command = [*PRISM_SIM, "run", "tiny/pair", "--quiet", "--no-report", "--out", "run"]
    assert completed(command, folder).returncode == 0
    return folder / "run"


@pytest.fixture
def run(simulated: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may damage."""
    return Path(shutil.copytree(simulated, tmp_path / "run"))


@pytest.mark.parametrize("name", ["flows.parquet", "truth/spans.parquet"])
@pytest.mark.parametrize("kept_bytes", [0, 1000])
def test_a_damaged_table_of_a_run_is_named(run: Path, name: str, kept_bytes: int) -> None:
    (run / name).write_bytes((run / name).read_bytes()[:kept_bytes])
    done = CliRunner().invoke(app, ["report", str(run), "--quiet"])
    assert done.exit_code == 1
    assert f"run/{name}: not a readable Parquet file" in done.stderr


OTHER_TABLES = [
    pa.table({"name": ["a"]}),
    pa.table({name: ["a"] for name in DIAGNOSIS["spans"].names}),
]


@pytest.mark.parametrize("table", OTHER_TABLES, ids=["columns", "types"])
@pytest.mark.parametrize("command", ["score", "report"])
def test_a_table_of_something_else_is_named(run: Path, command: str, table: pa.Table) -> None:
    pq.write_table(table, run / "diagnosis" / "spans.parquet")
    done = CliRunner().invoke(app, [command, str(run), "--quiet"])
    assert done.exit_code == 1
    assert "diagnosis/spans.parquet: " in done.stderr
    assert "start_ns" in done.stderr


IMPOSSIBLE = [(b"\xff\xfe", b"\xff"), (b"9" * 400, b"1:" + b"9" * 400), (b"soon", b"1:-1")]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["check"], []], ids=["check", "diagnosis"])
def test_a_note_that_cannot_be_says_nothing(run: Path, command: list[str]) -> None:
    flows, answers = pq.read_table(run / "flows.parquet"), []
    for notes in ({}, *({b"idle_gap_ns": gap, b"sampling": rate} for gap, rate in IMPOSSIBLE)):
        pq.write_table(flows.replace_schema_metadata(notes), run / "flows.parquet")
        done = completed([*LLMPRISM, *command, *HERE, "--json", "--quiet"], run)
        answers.append((done.returncode, done.stdout, done.stderr))
    assert "Traceback" not in answers[0][2]
    assert answers[1:] == answers[:1] * len(IMPOSSIBLE)


def test_a_diagnosis_goes_into_no_folder_of_other_files(run: Path) -> None:
    folder = run.parent / "own"
    folder.mkdir()
    for name in HERE[::2]:
        shutil.copy(run / name, folder)
    before = sorted(os.listdir(folder))
    done = completed([*PRISM_SIM, "diagnose", *HERE, "--out", ".", "--quiet"], folder)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(folder)) == before
