"""Environments as a stranger has them: distributions, and only the packages that these ask for."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


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
