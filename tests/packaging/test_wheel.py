"""The wheel, as a stranger gets it: built, installed into a clean environment, and used there."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def call(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    call(*build, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_two_packages_the_scenarios_and_no_module_of_a_common_name(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/")[0] for name in names}
    ours = {"prism_sim", "llmprism", "llmlog"}
    assert {name for name in top if not name.endswith(".dist-info")} == ours
    assert "prism_sim/scenarios/tiny/quickstart.yaml" in names
    assert "prism_sim/scenarios/workloads/traces/pipeline.0.json" in names
    assert any(name.startswith("prism_sim/render/templates/") for name in names)
    assert any(name.startswith("llmprism/page/templates/") for name in names)


def test_the_wheel_carries_the_licence_it_declares(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        (text,) = (name for name in archive.namelist() if name.endswith("/licenses/LICENSE"))
        assert "License-Expression: Apache-2.0" in archive.read(metadata).decode()
        assert archive.read(text).decode() == (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "dependencies", ["of here", pytest.param("from the index", marks=pytest.mark.full)]
)
def test_a_clean_environment_runs_a_bundled_scenario_to_its_report(
    wheel, tmp_path, monkeypatch, dependencies
):
    """With the packages that the tests run with; in the full form, with those it asks for."""
    place = tmp_path / "env"
    if dependencies == "of here":
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # it has no compiled code yet
        venv.create(place)
        pip = (sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install")
        call(*pip, "--quiet", "--no-deps", "--no-index", wheel, cwd=tmp_path)
        (packages,) = place.glob("lib/python*/site-packages")
        (packages / "here.pth").write_text(sysconfig.get_path("purelib"))
    else:
        venv.create(place, with_pip=True)
        pip = (place / "bin" / "python", "-m", "pip", "install", "--quiet")
        call(*pip, "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
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
