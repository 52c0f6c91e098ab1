"""The saved reference of a suite: what it was made of, and the headlines; beside it, raw figures.

A reference holds for the scenarios that it was made of. It is refused if the suite has changed
since then, because figures of other scenarios say nothing about a change of the code.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prism_common.errors import Problem, UserError
from prism_common.files import replacing
from prism_sim.run_folder import Run
from prism_sim.studies.regression.headlines import Headline
from prism_sim.studies.regression.running import CaseRun, Figures, Simulation
from prism_sim.studies.regression.suite import Case, short_hash
from prism_sim.version import __version__

UPDATE = "make it again with --update"
_ABOUT = "Made by `prism-sim regress --update`. Headlines pass or fail; raw figures do not."
_FORMAT = 2


@dataclass(frozen=True)
class Reference:
    """What a suite gave when the reference was made.

    Attributes
    ----------
    made_by : version of prism-sim, and a hash of all scenarios.
    keys, simulations : hash and simulation of each case, by its name.
    raw : all figures, by case and method.
    """

    made_by: dict[str, Any]
    headlines: list[Headline]
    keys: dict[str, str]
    simulations: dict[str, Simulation]
    raw: dict[str, dict[str, Figures]]


NONE = Reference({}, [], {}, {}, {})
"""In place of a reference that does not exist yet."""


def reference_of(
    cases: Iterable[Case], headlines: list[Headline], runs: Mapping[str, CaseRun]
) -> Reference:
    """The reference that these runs make."""
    keys = {case.name: case.key for case in cases}
    return Reference(
        made_by={"prism_sim": __version__, "scenarios": short_hash(keys)},
        headlines=headlines,
        keys=keys,
        simulations={name: run.simulation for name, run in runs.items()},
        raw={name: run.figures for name, run in runs.items()},
    )


def read_reference(path: Path) -> Reference:
    """The reference at ``path``.

    Raises
    ------
    UserError : there is none, or an older version wrote it.
    """
    if not path.exists():
        what = "there is no reference to compare with"
        raise UserError(Problem(what, str(path), "make one with --update"))
    content = Run(path.parent).read_json(path)
    if content.get("format") != _FORMAT:
        what = "this reference has the form of another version of prism-sim"
        raise UserError(Problem(what, str(path), UPDATE))
    cases = content["cases"]
    return Reference(
        made_by=content["made_by"],
        headlines=[Headline(**one) for one in content["headlines"]],
        keys={name: case["key"] for name, case in cases.items()},
        simulations={
            name: Simulation.from_data(case["simulation"]) for name, case in cases.items()
        },
        raw=_raw(raw_file(path)),
    )


def read_former(path: Path) -> Reference:
    """The reference that is about to be replaced; nothing if there is none that can be read."""
    try:
        return read_reference(path)
    except UserError:
        return NONE


def refuse_stale(reference: Reference, cases: Iterable[Case], path: Path) -> None:
    """Refuse a ``reference`` that was made of other cases than these: a UserError with all."""
    problems = [Problem(what, str(path), UPDATE) for what in _differences(reference, cases)]
    if problems:
        raise UserError(problems)


def _differences(reference: Reference, cases: Iterable[Case]) -> Iterator[str]:
    keys = {case.name: case.key for case in cases}
    for name in {**keys, **reference.keys}:
        if name not in reference.keys:
            yield f"the reference does not have the case {name!r}"
        elif name not in keys:
            yield f"the suite does not have the case {name!r} of the reference"
        elif keys[name] != reference.keys[name]:
            yield f"the scenario of the case {name!r} has changed since the reference was made"


def write_reference(path: Path, reference: Reference) -> None:
    """Save ``reference``, a line for each headline and each case, and its raw figures beside it."""
    head = {"about": _ABOUT, "format": _FORMAT, "made_by": reference.made_by}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    held = [f"  {json.dumps(asdict(one))}" for one in reference.headlines]
    lines.append(' "headlines": [\n' + ",\n".join(held) + "\n ]")
    cases = [f"  {json.dumps(name)}: {_case(reference, name)}" for name in reference.keys]
    lines.append(' "cases": {\n' + ",\n".join(cases) + "\n }")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    with replacing(raw_file(path)) as partial:
        partial.write_bytes(gzip.compress(json.dumps(reference.raw).encode(), mtime=0))


def _case(reference: Reference, name: str) -> str:
    simulation = reference.simulations[name].as_data()
    return json.dumps({"key": reference.keys[name], "simulation": simulation})


def raw_file(path: Path) -> Path:
    """The file of the raw figures that belongs to the reference at ``path``."""
    return path.with_suffix(".raw.json.gz")


def _raw(path: Path) -> dict[str, dict[str, Figures]]:
    try:
        found: dict[str, dict[str, Figures]] = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError):
        return {}  # they only explain, so a gate does without
    return found
