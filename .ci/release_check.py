"""What must hold before a release: ``python .ci/release_check.py [PHASE...]``.

metadata : both distributions have one version, CHANGELOG.md has a dated entry for it, and the tag
    of this version, vVERSION, is on no other commit.
build    : sdists and wheels in dist/, each with the licence.
pythons  : the wheels run in an empty environment of every Python from 3.11 to 3.13 that is there.
lowest   : the tests of modules, with the lowest version of every library that is declared.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PROJECTS = {"llmprism": ROOT / "diagnose", "prism_sim": ROOT}
PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = {"llmprism": "dask,kafka,monitor", "prism_sim": "chakra,pytest"}
TEST_TOOLS = ("build", "changepoint", "hatchling", "hypothesis", "pytest-xdist", "scapy")
MODULE_TESTS = ("tests/prism_common", "tests/llmprism", "tests/llmlog", "tests/prism_sim")


def project(name: str) -> dict[str, Any]:
    """The table ``project`` of a distribution."""
    text = (PROJECTS[name] / "pyproject.toml").read_text(encoding="utf-8")
    content: dict[str, Any] = tomllib.loads(text)["project"]
    return content


def call(*words: str | Path) -> None:
    """Run a program to its success, or end with what it printed."""
    done = subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def metadata() -> None:
    """Compare versions, and look for the entry of this one."""
    versions = {project(name)["version"] for name in PROJECTS}
    if len(versions) > 1:
        raise SystemExit(f"the distributions have different versions: {', '.join(versions)}")
    (version,) = versions
    entry = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$"
    if not re.search(entry, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        raise SystemExit(f"CHANGELOG.md has no dated entry for {version}")
    if commit_of(f"v{version}") not in ("", commit_of("HEAD")):
        raise SystemExit(f"the tag v{version} is on another commit: raise the version")


def commit_of(name: str) -> str:
    """The commit of a tag or branch; empty if there is none of this name."""
    command = ("git", "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def build() -> None:
    """Build sdists, wheels from these, and look for the licence in each."""
    shutil.rmtree(DIST, ignore_errors=True)
    for source in PROJECTS.values():
        call(sys.executable, "-m", "build", "--outdir", DIST, source)
    for path in DIST.iterdir():
        if not any(name.endswith("/LICENSE") for name in contents(path)):
            raise SystemExit(f"{path.name} has no licence")


def contents(path: Path) -> list[str]:
    """Names of the files in a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.namelist()
    with tarfile.open(path) as sdist:
        return sdist.getnames()


def wheels(extras: bool = False) -> list[str]:
    """The wheels as pip takes them, with their extras."""
    found = {name: next(DIST.glob(f"{name}-*.whl")) for name in PROJECTS}
    return [f"{path}[{EXTRAS[name]}]" if extras else str(path) for name, path in found.items()]


def pythons() -> None:
    """Install the wheels for each Python, and run a bundled scenario to its report."""
    for version in PYTHONS:
        python = shutil.which(f"python{version}")
        if python is None or subprocess.run([python, "-V"], capture_output=True).returncode:
            print(f"  Python {version} is not here")
            continue
        with tempfile.TemporaryDirectory() as place:
            run = environment(Path(place), python, *wheels())
            for program in ("llmprism", "llmlog"):
                call(run / program, "--version")
            call(run / "prism-sim", "run", "tiny/pair", "--out", Path(place) / "run", "--quiet")
            print(f"  Python {version}: tiny/pair ran to its report")


def environment(place: Path, python: str, *packages: str) -> Path:
    """A new environment with these packages; returns its folder of programs."""
    call(python, "-m", "venv", place / "env")
    run = place / "env" / "bin"
    call(run / "python", "-m", "pip", "install", "--quiet", *packages)
    return run


def floors() -> Iterator[str]:
    """The lowest declared version of each library, as constraints."""
    for name in PROJECTS:
        extras = project(name)["optional-dependencies"]
        asked = [extras[extra] for extra in EXTRAS[name].split(",")]
        for entry in chain(project(name)["dependencies"], *asked):
            if match := re.match(r"([\w.-]+)>=([\d.]+)$", entry):
                yield f"{match[1]}=={match[2]}"


def lowest() -> None:
    """Run the tests of modules with the lowest versions."""
    python = shutil.which(f"python{PYTHONS[0]}") or sys.executable
    with tempfile.TemporaryDirectory() as place:
        constraints = Path(place) / "floors.txt"
        constraints.write_text("\n".join(floors()) + "\n", encoding="utf-8")
        packages = ("-c", str(constraints), *wheels(extras=True), *TEST_TOOLS)
        run = environment(Path(place), python, *packages)
        call(run / "prism-sim", "run", "tiny/pair", "--out", Path(place) / "run", "--quiet")
        few = ("-q", "-n", "2", "-m", "not slow and not full")  # all is compiled by now
        call(run / "python", "-m", "pytest", *few, *MODULE_TESTS)


PHASES: dict[str, Callable[[], None]] = {
    "metadata": metadata, "build": build, "pythons": pythons, "lowest": lowest
}  # fmt: skip


def main() -> None:
    """Run the phases that are named, or all."""
    for name in sys.argv[1:] or PHASES:
        print(f"{name} ...", flush=True)
        began = time.monotonic()
        PHASES[name]()
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
