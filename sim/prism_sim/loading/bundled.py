"""The scenarios that come along, by name: ``tiny/quickstart``.

In a checkout they lie in ``scenarios/`` at its top; a wheel carries them inside the package.
"""

from __future__ import annotations

import re
from pathlib import Path

from llmprism.errors import Problem, UserError
from prism_sim.version import PACKAGE

_IS_SCENARIO = re.compile(r"^cluster:", re.MULTILINE)
"""What tells a scenario from a study or a suite, which lie beside them."""

_IS_STUDY = re.compile(r"^grid:", re.MULTILINE)


def folder() -> Path:
    """Where the bundled scenarios are."""
    installed = PACKAGE / "scenarios"
    return installed if installed.is_dir() else PACKAGE.parents[1] / "scenarios"


def bundled() -> dict[str, Path]:
    """Every bundled scenario by its name, in order."""
    top = folder()
    files = {path.relative_to(top).with_suffix("").as_posix(): path for path in top.rglob("*.yaml")}
    return {name: files[name] for name in sorted(files) if _is_scenario(files[name])}


def find(scenario: str) -> Path:
    """The file that ``scenario`` means: a path, ``-``, or else the name of a bundled scenario.

    Raises
    ------
    UserError : it is neither.
    """
    path = Path("/dev/stdin" if scenario == "-" else scenario)
    if path.exists() and not path.is_dir():
        return path  # a file, or a pipe
    known = bundled()
    if scenario in known:
        return known[scenario]
    from prism_sim.scenario.words import did_you_mean

    what = f"there is no file and no bundled scenario {scenario!r}"
    raise UserError(Problem(what, scenario, did_you_mean(scenario, known)))


def find_study(study: str) -> Path:
    """The file that ``study`` means: a path, or else the name of a bundled study.

    Raises
    ------
    UserError : it is neither.
    """
    path = Path(study)
    if path.is_file():
        return path
    top = folder()
    files = {path.relative_to(top).with_suffix("").as_posix(): path for path in top.rglob("*.yaml")}
    known = {name: file for name, file in files.items() if _is_study(file)}
    if study in known:
        return known[study]
    from prism_sim.scenario.words import did_you_mean

    what = f"there is no file and no bundled study {study!r}"
    raise UserError(Problem(what, study, did_you_mean(study, known)))


def _is_study(path: Path) -> bool:
    return bool(_IS_STUDY.search(path.read_text(encoding="utf-8")))


def _is_scenario(path: Path) -> bool:
    return bool(_IS_SCENARIO.search(path.read_text(encoding="utf-8")))
