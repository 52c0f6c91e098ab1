"""prism-sim from Python: the same stages as on the command line, with results as objects.

>>> import prism_sim as ps
>>> run = ps.run("tiny/pair", set={"jobs.0.steps": 5})  # doctest: +SKIP
>>> run.score["jobs"]["accuracy"]  # doctest: +SKIP
1.0
>>> run.diagnosis.findings  # doctest: +SKIP
>>> run.report()  # doctest: +SKIP
PosixPath('results/pair/0/report.html')
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmprism.defaults import METHOD
from prism_sim.commands import stages
from prism_sim.commands.session import Session
from prism_sim.products import exclusive
from prism_sim.run_folder import Run

if TYPE_CHECKING:
    import pandas as pd

    from llmprism.diagnosis import Diagnosis
    from prism_sim.loading.scenario import Scenario

_LONGEST_TEXT = 20_000  # characters of a score that is shown as text


@dataclass(frozen=True)
class RunResult:
    """A scenario that was simulated, diagnosed and scored.

    Attributes
    ----------
    folder : the run folder, with everything in files.
    scenario : the simulated scenario, with ``set`` and ``seed`` applied.
    diagnosis : the results of the method, as tables.
    score : accuracy of the diagnosis; the content of ``score.json``.
    warnings : doubtful values in the scenario.
    """

    folder: Path
    scenario: Scenario = field(repr=False)
    diagnosis: Diagnosis = field(repr=False)
    score: Any = field(repr=False)
    warnings: tuple[str, ...] = ()

    def truth(self, table: str) -> pd.DataFrame:
        """A table of the truth: ``ranks``, ``pairs``, ``steps``, ``spans`` or ``faults``."""
        return Run(self.folder).truth(table)

    def flows(self) -> pd.DataFrame:
        """The flow records, as the collector exported them."""
        import pandas as pd

        return pd.read_parquet(Run(self.folder).flows)

    def report(self) -> Path:
        """Draw the figures, write ``report.html`` and ``trace.json``; returns the page."""
        run = Run(self.folder)
        stages.report(Session(quiet=True), run)
        return run.report

    def _repr_html_(self) -> str:
        title = f"{self.scenario.name}, seed {self.scenario.seed}"
        folder = f"<p>Run folder: <code>{html.escape(str(self.folder))}</code></p>"
        parts = [_as_html(self.score), _as_html(self.diagnosis)]
        return f"<h3>{html.escape(title)}</h3>{folder}{''.join(parts)}"


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
    from prism_sim.loading.bundled import find
    from prism_sim.loading.loader import load_with_warnings

    name = method or METHOD
    stages.check_method(name)
    changes = dict(set or {}) | ({} if seed is None else {"seed": seed})
    loaded = load_with_warnings(find(str(scenario)), changes)
    made = Run.default(loaded.scenario.name, loaded.scenario.seed, out)
    session = Session(quiet=True)
    with exclusive(made.folder):
        stages.simulate(session, loaded.scenario, made, [])
        diagnosis = stages.diagnose(session, made.flows, made.topology, name, made.diagnosis_folder)
        score = stages.score(session, made)
    warnings = tuple(str(warning) for warning in loaded.warnings)
    return RunResult(made.folder, loaded.scenario, diagnosis, score, warnings)


def _as_html(part: Any) -> str:
    """``part`` as HTML for a notebook."""
    shown = getattr(part, "_repr_html_", None)
    if shown is not None:
        return str(shown())
    return f"<pre>{html.escape(json.dumps(part, indent=1)[:_LONGEST_TEXT])}</pre>"
