"""prism-sim from Python: the same stages as on the command line, with results as objects.

>>> import prism_sim as ps
>>> run = ps.run("tiny/pair", set={"jobs.0.steps": 5})  # doctest: +SKIP
>>> run.score["jobs"]["accuracy"]  # doctest: +SKIP
1.0
>>> run.diagnosis.findings  # doctest: +SKIP
>>> run.report()  # doctest: +SKIP
PosixPath('results/pair/0/report.html')

:func:`simulate`, :func:`diagnose` and :func:`score` are the stages of :func:`run`; :func:`sweep`,
:func:`whatif` and :func:`compare` make many runs. Each returns an object that a notebook displays.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmprism.defaults import MEMORY_LIMIT_GIB, METHOD, TIME_LIMIT_S
from prism_sim.commands import stages
from prism_sim.commands.session import Session
from prism_sim.products import exclusive
from prism_sim.run_folder import Run

if TYPE_CHECKING:
    import pandas as pd

    from llmprism.diagnosis import Diagnosis
    from prism_sim.loading.loader import Loaded
    from prism_sim.loading.scenario import Scenario
    from prism_sim.score import Score
    from prism_sim.studies.comparison import Comparison
    from prism_sim.studies.results import Costs, Sweep


@dataclass(frozen=True)
class Simulation:
    """A simulated scenario.

    Attributes
    ----------
    folder : the run folder, with everything in files.
    scenario : the simulated scenario, with ``set`` and ``seed`` applied.
    warnings : doubtful values in the scenario.
    """

    folder: Path
    scenario: Scenario = field(repr=False)
    warnings: tuple[str, ...] = ()

    def truth(self, table: str) -> pd.DataFrame:
        """A table of the truth: ``ranks``, ``pairs``, ``steps``, ``spans`` or ``faults``."""
        return Run(self.folder).truth(table)

    def flows(self) -> pd.DataFrame:
        """The flow records, as the collector exported them."""
        import pandas as pd

        return pd.read_parquet(Run(self.folder).flows)

    def _repr_html_(self) -> str:
        title = f"{self.scenario.name}, seed {self.scenario.seed}"
        folder = f"<p>Run folder: <code>{html.escape(str(self.folder))}</code></p>"
        return f"<h3>{html.escape(title)}</h3>{folder}"


@dataclass(frozen=True)
class RunResult(Simulation):
    """A scenario that was simulated, diagnosed and scored.

    Attributes
    ----------
    diagnosis : the results of the method, as tables.
    score : accuracy of the diagnosis; the content of ``score.json``.
    """

    diagnosis: Diagnosis = field(repr=False, kw_only=True)
    score: Score = field(repr=False, kw_only=True)

    def report(self) -> Path:
        """Draw the figures, write ``report.html`` and ``trace.json``; returns the page."""
        run = Run(self.folder)
        stages.report(Session(quiet=True), run)
        return run.report

    def _repr_html_(self) -> str:
        return f"{super()._repr_html_()}{_as_html(self.score)}{_as_html(self.diagnosis)}"


def simulate(
    scenario: str | Path,
    set: Mapping[str, Any] | None = None,  # noqa: A002  # as the option of the command line
    seed: int | None = None,
    out: str | Path | None = None,
) -> Simulation:
    """Simulate ``scenario``; parameters and errors as in :func:`run`."""
    loaded, made = _loaded(scenario, set, seed, out)
    stages.simulate(Session(quiet=True), loaded.scenario, made, [])
    warnings = tuple(str(warning) for warning in loaded.warnings)
    return Simulation(made.folder, loaded.scenario, warnings)


def diagnose(
    simulated: Simulation | str | Path,
    method: str = METHOD,
    time_limit: float = TIME_LIMIT_S,
    memory_limit: float = MEMORY_LIMIT_GIB,
) -> Diagnosis:
    """Diagnose the flows of a run into its folder.

    Parameters
    ----------
    simulated : a simulation, or its folder.
    method : a name, or ``package.module:object``.
    time_limit, memory_limit : of a method of another package [s], [GiB].

    Raises
    ------
    UserError : there is no such run or method, or the method gave no tables.
    """
    from llmprism.isolation.runner import Limits

    stages.check_method(method)
    made = stages.existing(_folder(simulated))
    limits = Limits.of(time_limit, memory_limit)
    files = (made.flows, made.topology, method, made.diagnosis_folder)
    return stages.diagnose(Session(quiet=True), *files, limits)


def score(simulated: Simulation | str | Path, tables: str | Path | None = None) -> Score:
    """Compare the diagnosis of a run with its truth.

    Parameters
    ----------
    simulated : a simulation, or its folder.
    tables : a folder of tables that another program made; they replace the diagnosis.

    Raises
    ------
    UserError : there is no such run, or a table is missing or invalid.
    """
    made, session = stages.existing(_folder(simulated)), Session(quiet=True)
    if tables is not None:
        stages.adopt_tables(session, made, Path(tables))
    return stages.score(session, made)


def run(
    scenario: str | Path,
    method: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002  # as the option of the command line
    seed: int | None = None,
    out: str | Path | None = None,
) -> RunResult:
    """Simulate ``scenario``, diagnose its flows and score the diagnosis.

    Parameters
    ----------
    scenario : a YAML file, or the name of a bundled scenario.
    method : method of diagnosis. Default: that of the command line.
    set : values of the scenario to change, by their dotted paths.
    seed : seed to use instead of the scenario's.
    out : run folder, as ``--out``. Default: ``results/SCENARIO/SEED``.

    Raises
    ------
    UserError : the scenario is wrong, or the folder holds files that prism-sim did not write.
    """
    stages.check_method(method or METHOD)
    _, made = _loaded(scenario, set, seed, out)
    with exclusive(made.folder):
        simulated = simulate(scenario, set, seed, out)
        diagnosis = diagnose(simulated, method or METHOD)
        return RunResult(**vars(simulated), diagnosis=diagnosis, score=score(simulated))


def sweep(study: str | Path, out: str | Path | None = None, processes: int | None = None) -> Sweep:
    """Run a study: a scenario at many places; finished runs are not repeated.

    Parameters
    ----------
    study : a YAML file, or the name of a bundled study.
    out : folder. Default: ``results/sweeps/STUDY``.
    processes : parallel runs. Default: that of the study, or one per processor core.
    """
    from prism_sim.studies.results import run_sweep

    return run_sweep(str(study), _path(out), processes)


def whatif(
    scenario: str | Path,
    set: Mapping[str, Any] | None = None,  # noqa: A002  # as the option of the command line
    seed: int | None = None,
    out: str | Path | None = None,
    processes: int | None = None,
) -> Costs:
    """The cost of each fault of ``scenario``; with ``set``, the effect of these changes."""
    from prism_sim.studies.results import run_whatif

    return run_whatif(str(scenario), dict(set or {}), seed, _path(out), processes)


def compare(
    methods: Sequence[str],
    scenario: str | Path,
    seeds: int = 5,
    out: str | Path | None = None,
    processes: int | None = None,
    time_limit: float = TIME_LIMIT_S,
    memory_limit: float = MEMORY_LIMIT_GIB,
) -> Comparison:
    """Compare methods on the same worlds; differences are those from the first method.

    Parameters
    ----------
    methods : names, or ``package.module:object``; ``null`` is always added.
    seeds : number of seeds, from that of the scenario on.
    out : folder. Default: ``results/compare/SCENARIO``.
    time_limit, memory_limit : of each diagnosis [s], [GiB].
    """
    from llmprism.isolation.runner import Limits
    from prism_sim.studies.comparison import compare_on, worlds_of_scenario
    from prism_sim.studies.pool import default_processes

    worlds = worlds_of_scenario(str(scenario), seeds)
    folder = _path(out) or Path("results") / "compare" / worlds[0].group
    limits = Limits.of(time_limit, memory_limit)
    with exclusive(folder):
        title = f"Comparison on {worlds[0].group}"
        at_once = processes or default_processes()
        return compare_on(worlds, methods, folder, title, limits, at_once)


def _loaded(
    scenario: str | Path,
    changes: Mapping[str, Any] | None,
    seed: int | None,
    out: str | Path | None,
) -> tuple[Loaded, Run]:
    """The scenario with its changes and warnings, and its run folder."""
    from prism_sim.loading.bundled import find
    from prism_sim.loading.loader import load_with_warnings

    overrides = dict(changes or {}) | ({} if seed is None else {"seed": seed})
    loaded = load_with_warnings(find(str(scenario)), overrides)
    return loaded, Run.default(loaded.scenario.name, loaded.scenario.seed, out)


def _folder(simulated: Simulation | str | Path) -> Path:
    return simulated.folder if isinstance(simulated, Simulation) else Path(simulated)


def _path(out: str | Path | None) -> Path | None:
    return None if out is None else Path(out)


def _as_html(part: Any) -> str:
    """``part`` as HTML for a notebook."""
    return str(part._repr_html_())
