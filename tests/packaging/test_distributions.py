"""Both distributions, as a stranger gets them: built, installed into an empty environment, used."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"llmprism": ROOT / "diagnose", "prism_sim": ROOT}
PACKAGES = {"llmprism": {"llmprism", "llmlog", "prism_common"}, "prism_sim": {"prism_sim"}}
FLOWS = ROOT / "tests" / "fixtures" / "exports"


def call(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The finished process of ``command``, which succeeded."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def install(place: Path, *wheels: Path) -> None:
    """Make the environment ``place`` with the wheels, and links to packages that they ask for."""
    venv.create(place)
    pip = (sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install")
    call(*pip, "--quiet", "--no-deps", "--no-index", *wheels, cwd=place)
    (packages,) = place.glob("lib/python*/site-packages")
    made = [PathDistribution(info) for info in packages.glob("*.dist-info")]
    for top in set().union(*(_tops(distribution(name)) for name in _asked_for(made))):
        (packages / top.name).symlink_to(top)


def _asked_for(distributions: list[PathDistribution]) -> set[str]:
    """Names of all packages that the distributions need, directly or not; without themselves."""
    ours = {canonicalize_name(each.name) for each in distributions}
    found: set[str] = set()
    ahead: list[Distribution] = [*distributions]
    while ahead:
        for line in ahead.pop().requires or ():
            need = Requirement(line)
            wanted = need.marker is None or need.marker.evaluate({"extra": ""})
            name = canonicalize_name(need.name)
            if wanted and name not in found | ours:
                found.add(name)
                ahead.append(distribution(name))
    return found


def _tops(installed: Distribution) -> set[Path]:
    """Files and folders of a package directly below its ``site-packages``."""
    tops = {path.parts[0] for path in installed.files or ()} - {"..", "__pycache__"}
    return {Path(str(installed.locate_file(top))) for top in tops}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdists, and the wheels that were built from them."""
    folder = tmp_path_factory.mktemp("dist")
    for source in FOLDERS.values():
        call(
            sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=folder
        )
    return folder


def wheel(dist: Path, name: str) -> Path:
    (path,) = dist.glob(f"{name}-*.whl")
    return path


@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_holds_its_packages_and_no_module_of_a_common_name(dist, name):
    with zipfile.ZipFile(wheel(dist, name)) as archive:
        tops = {entry.split("/")[0] for entry in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES[name]


def test_wheels_hold_the_scenarios_and_the_templates(dist):
    names = set()
    for name in PACKAGES:
        with zipfile.ZipFile(wheel(dist, name)) as archive:
            names |= {*archive.namelist()}
    assert "prism_sim/scenarios/tiny/quickstart.yaml" in names
    assert "prism_sim/scenarios/workloads/traces/pipeline.0.json" in names
    assert any(name.startswith("prism_sim/render/templates/") for name in names)
    assert any(name.startswith("llmprism/page/templates/") for name in names)


@pytest.mark.parametrize("name", PACKAGES)
def test_wheel_and_sdist_carry_the_licence_they_declare(dist, name):
    licence = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in licence
    with zipfile.ZipFile(wheel(dist, name)) as archive:
        (metadata,) = (it for it in archive.namelist() if it.endswith(".dist-info/METADATA"))
        (text,) = (it for it in archive.namelist() if it.endswith("/licenses/LICENSE"))
        assert "License-Expression: Apache-2.0" in archive.read(metadata).decode()
        assert archive.read(text).decode() == licence
    (path,) = dist.glob(f"{name}-*.tar.gz")
    with tarfile.open(path) as archive:
        top = path.name.removesuffix(".tar.gz")
        content = archive.extractfile(f"{top}/LICENSE")
        assert content is not None
        assert content.read().decode() == licence


def test_the_diagnosers_need_nothing_of_a_simulation(dist, tmp_path, monkeypatch):
    """With the packages that their distribution asks for, and no others, they diagnose."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # the environment has no compiled code yet
    monkeypatch.delenv("PYTHONPATH", raising=False)
    place = tmp_path / "env"
    install(place, wheel(dist, "llmprism"))
    has = "import sys; from importlib.util import find_spec as f; print(*map(f, sys.argv[1:]))"
    others = ("prism_sim", "simpy", "matplotlib", "seaborn")
    absent = call(place / "bin" / "python", "-c", has, *others, cwd=tmp_path).stdout.split()
    assert absent == ["None"] * len(others)
    program, mine = place / "bin" / "llmprism", tmp_path / "mine"
    exports = (FLOWS / "training.ipfix.gz", "--topology", FLOWS / "cables.csv")
    call(program, "ingest", *exports, "--out", mine, "--quiet", cwd=tmp_path)
    files = (mine / "flows.parquet", "--topology", mine / "topology.json")
    checked = call(program, "check", *files, "--json", "--quiet", cwd=tmp_path)
    assert json.loads(checked.stdout)["figures"]["records"] > 0
    (tmp_path / "job.log").write_text("Traceback (most recent call last):\nKeyError: 'lr'\n")
    logs = call(place / "bin" / "llmlog", tmp_path / "job.log", "--json", cwd=tmp_path)
    assert json.loads(logs.stdout)["failures"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "dependencies", ["of here", pytest.param("from the index", marks=pytest.mark.full)]
)
def test_a_clean_environment_runs_a_bundled_scenario_to_its_report(
    dist, tmp_path, monkeypatch, dependencies
):
    """With the packages that the tests run with; in the full form, with those it asks for."""
    place = tmp_path / "env"
    wheels = [wheel(dist, name) for name in PACKAGES]
    if dependencies == "of here":
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
        install(place, *wheels)
    else:
        venv.create(place, with_pip=True)
        pip = (place / "bin" / "python", "-m", "pip", "install", "--quiet")
        call(*pip, "-c", ROOT / "constraints.txt", *wheels, cwd=tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    where = "import prism_sim, llmprism; print(prism_sim.__file__, llmprism.__file__)"
    for path in call(place / "bin" / "python", "-c", where, cwd=tmp_path).stdout.split():
        assert Path(path).is_relative_to(place)
    few = ("--set", "jobs.0.steps=3")
    command = place / "bin" / "prism-sim"
    done = call(command, "run", "tiny/pair", *few, "--json", "--quiet", cwd=tmp_path)
    assert json.loads(done.stdout)
    (report,) = (tmp_path / "results").glob("*/*/report.html")
    assert "<html" in report.read_text(encoding="utf-8")[:200]
    alone = call(
        place / "bin" / "llmprism", report.parent / "flows.parquet",
        "--topology", report.parent / "topology.json", cwd=tmp_path,
    )  # fmt: skip
    assert "job" in alone.stdout
