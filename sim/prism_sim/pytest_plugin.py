"""Plug-in for pytest: holds a method of diagnosis to bounds, in ordinary tests.

The marker ``prism`` names a scenario and bounds on figures of its score. A missed bound fails the
test. The fixture ``prism_case`` is the scored run, for checks of your own. A scenario is simulated
once in a session, for all tests and methods that use it with the same seed and changes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from llmprism.defaults import METHOD

if TYPE_CHECKING:
    from prism_sim.api import RunResult
    from prism_sim.commands.bounds import Bound
    from prism_sim.loading.loader import Loaded
    from prism_sim.run_folder import Run

MARKER, FIXTURE = "prism", "prism_case"
_OPTIONS = ("seed", "set", "method")
_ABOUT = (
    "prism(scenario, *bounds, seed=None, set=None, method=None): diagnose this scenario, and fail "
    "if a figure of the score misses a bound such as jobs.accuracy=1 or timeline.coverage>=0.99"
)

Simulate = Callable[[str, Mapping[str, Any]], "tuple[Loaded, Run]"]
"""Simulates a scenario with changes, or returns what it made of them before."""


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, so that ``--strict-markers`` accepts it."""
    config.addinivalue_line("markers", _ABOUT)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Bounds hold for a test that does not ask for the fixture as well."""
    names = getattr(item, "fixturenames", [])
    if item.get_closest_marker(MARKER) and FIXTURE not in names:
        names.append(FIXTURE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail the test itself, and not its preparation, if a bound is missed."""
    marker = item.get_closest_marker(MARKER)
    if marker:
        score = getattr(item, "funcargs", {})[FIXTURE].score
        missed = [text for bound in _bounds(marker) if (text := bound.missed_by(score))]
        if missed:
            pytest.fail("\n".join(missed), pytrace=False)
    return (yield)


@pytest.fixture(scope="session")
def prism_simulations(tmp_path_factory: pytest.TempPathFactory) -> Simulate:
    """Simulates each scenario once in a session."""
    made: dict[str, tuple[Loaded, Run]] = {}

    def simulated(scenario: str, changes: Mapping[str, Any]) -> tuple[Loaded, Run]:
        key = json.dumps([scenario, changes], sort_keys=True, default=str)
        if key not in made:
            made[key] = _simulated(scenario, changes, tmp_path_factory.mktemp("prism-simulated"))
        return made[key]

    return simulated


def _simulated(scenario: str, changes: Mapping[str, Any], folder: Path) -> tuple[Loaded, Run]:
    from prism_sim.commands.session import Session
    from prism_sim.commands.stages import simulate
    from prism_sim.loading.bundled import find
    from prism_sim.loading.loader import load_with_warnings
    from prism_sim.run_folder import Run

    loaded, run = load_with_warnings(find(scenario), changes), Run(folder / "run")
    simulate(Session(quiet=True), loaded.scenario, run, [])
    return loaded, run


@pytest.fixture
def prism_case(
    request: pytest.FixtureRequest, tmp_path: Path, prism_simulations: Simulate
) -> RunResult:
    """The scenario of the marker ``prism``: simulated, diagnosed and scored.

    See :class:`prism_sim.RunResult`: ``score``, ``diagnosis``, ``truth``, ``flows``, ``folder``.
    """
    from prism_common.errors import UserError

    marker = request.node.get_closest_marker(MARKER)
    if marker is None or not marker.args:
        pytest.fail(f"{FIXTURE} needs the marker {_ABOUT}", pytrace=False)
    problems: list[str] = []
    try:
        return _scored(marker, tmp_path / FIXTURE, prism_simulations)
    except UserError as error:
        problems += [f"{problem.what}\n    {problem.how}" for problem in error.problems]
    pytest.fail("\n".join([f"the marker {MARKER}:", *problems]), pytrace=False)


def _scored(marker: pytest.Mark, folder: Path, simulated: Simulate) -> RunResult:
    """Simulate what the marker names, and diagnose and score a copy of it in ``folder``."""
    from prism_sim.api import RunResult
    from prism_sim.commands import stages
    from prism_sim.commands.bounds import check_bounds
    from prism_sim.commands.session import Session
    from prism_sim.run_folder import Run

    _check_options(marker)
    check_bounds(_bounds(marker))
    seed, changes, method = (marker.kwargs.get(name) for name in _OPTIONS)
    method, session = method or METHOD, Session(quiet=True)
    stages.check_method(method)
    changes = {**(changes or {}), **({} if seed is None else {"seed": seed})}
    loaded, original = simulated(marker.args[0], changes)
    run = Run(Path(shutil.copytree(original.folder, folder)))
    diagnosis = stages.diagnose(session, run.flows, run.topology, method, run.diagnosis_folder)
    return RunResult(
        folder=folder,
        scenario=loaded.scenario,
        diagnosis=diagnosis,
        score=stages.score(session, run),
        warnings=tuple(map(str, loaded.warnings)),
    )


def _check_options(marker: pytest.Mark) -> None:
    from prism_common.errors import Problem, UserError
    from prism_sim.scenario.words import did_you_mean

    problems = [
        Problem(f"the marker {MARKER} has no option {name!r}", how=did_you_mean(name, _OPTIONS))
        for name in marker.kwargs
        if name not in _OPTIONS
    ]
    if problems:
        raise UserError(problems)


def _bounds(marker: pytest.Mark) -> list[Bound]:
    from prism_common.errors import Problem, UserError
    from prism_sim.commands.bounds import parse_bound

    try:
        return [parse_bound(text) for text in marker.args[1:]]
    except ValueError as error:
        raise UserError(Problem(str(error), f"the marker {MARKER}")) from None
