"""The bundled scenarios, by name: ``tiny/quickstart``.

In a checkout they are in ``scenarios/`` at the top; a wheel contains them inside the package.
"""

from __future__ import annotations

import re
from pathlib import Path

from prism_common.errors import Problem, UserError
from prism_sim.version import PACKAGE

MANIFEST = "manifest.json"
"""The file of a run's folder that has its scenario."""

_IS_SCENARIO = re.compile(r"^cluster:", re.MULTILINE)
"""Keys that distinguish a scenario from a study or a suite in the same folder."""

_IS_STUDY = re.compile(r"^figures:", re.MULTILINE)


def folder() -> Path:
    """The folder of the bundled scenarios."""
    return PACKAGE / "scenarios" if is_installed() else PACKAGE.parents[1] / "scenarios"


def is_installed() -> bool:
    """Whether they are those of an installed wheel, which nobody edits."""
    return (PACKAGE / "scenarios").is_dir()


def bundled() -> dict[str, Path]:
    """Every bundled scenario by its name, sorted."""
    return {name: path for name, path in _files().items() if _is_scenario(path)}


def bundled_studies() -> dict[str, Path]:
    """Every bundled study by its name, sorted."""
    return {name: path for name, path in _files().items() if is_study(path)}


def bundled_operations() -> dict[str, Path]:
    """Every bundled study of operations by its name, sorted."""
    return {name: path for name, path in _files().items() if name.startswith("operations/")}


def question_of(study: Path) -> str:
    """The question that a bundled study answers: the first sentence of its first comment."""
    first = study.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return first.partition("?")[0] + "?"


def _files() -> dict[str, Path]:
    top = folder()
    files = {path.relative_to(top).with_suffix("").as_posix(): path for path in top.rglob("*.yaml")}
    return dict(sorted(files.items()))


def find(scenario: str) -> Path:
    """The file of ``scenario``: a path, ``-``, a run's folder, or the name of a bundled scenario.

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
    if (path / MANIFEST).is_file():
        return path / MANIFEST
    from prism_sim.scenario.words import did_you_mean

    what = f"there is no file and no bundled scenario {scenario!r}"
    is_other = scenario in bundled_studies()
    how = f"it is a study: prism-sim sweep {scenario}" if is_other else ""
    raise UserError(Problem(what, scenario, how or did_you_mean(scenario, known)))


def find_study(study: str) -> Path:
    """The file of ``study``: a path, or the name of a bundled study.

    Raises
    ------
    UserError : it is neither.
    """
    return _find_study(study, bundled_studies())


def find_operations(study: str) -> Path:
    """The file of a study of operations: a path, or the name of a bundled one.

    Raises
    ------
    UserError : it is neither.
    """
    return _find_study(study, bundled_operations())


def _find_study(study: str, known: dict[str, Path]) -> Path:
    path = Path(study)
    if path.is_file():
        return path
    if study in known:
        return known[study]
    from prism_sim.scenario.words import did_you_mean

    what = f"there is no file and no bundled study {study!r}"
    how = f"it is a scenario: prism-sim run {study}" if study in bundled() else ""
    raise UserError(Problem(what, study, how or did_you_mean(study, known)))


def is_study(path: Path) -> bool:
    """Whether a YAML file is a study."""
    return bool(_IS_STUDY.search(path.read_text(encoding="utf-8")))


def _is_scenario(path: Path) -> bool:
    return bool(_IS_SCENARIO.search(path.read_text(encoding="utf-8")))
