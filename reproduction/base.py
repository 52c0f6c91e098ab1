"""What an experiment of the publication is, and what all of them share.

An experiment is a folder of this package and one line in :data:`..paper.EXPERIMENTS`:

- ``__init__.py`` ties its functions together as an :class:`Experiment`;
- ``measure.py`` (and what else it needs) lists the trials and measures one;
- ``page.py`` (and ``page_*.py``) turns the results of all trials into text, tables and pictures.

A :class:`Trial` is one world to be made, and is measured in a worker process: ``measure`` gets
it, makes what it needs (:func:`diagnosed` simulates, diagnoses and scores in a temporary
folder), and returns what JSON can hold. That is kept in a file under the trial's
key; large arrays go in as quantiles or histograms. The key covers the world, ``settings``,
the simulator, the diagnoser and the experiment's own modules but those whose name
begins with ``page``, so a changed sentence or picture repeats no run.

``page.py`` has three functions of the finished trials, which may be fewer than were listed
(and never none); none of them computes a world:

- ``section``: Markdown below the experiment's heading: published figures beside ours, with
  mean and range over the seeds;
- ``gaps``: sentences about what cannot be reproduced, and why;
- ``pictures``: the redrawn figures, shown below the section.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prism_sim.toolkit import Scenario, fingerprint, working_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from llmprism.methods.paper import StagedMethod
    from prism_sim.toolkit import Run

METHOD = "paper"
"""The method whose evaluation is reproduced."""

_NO_MATTER = (
    "__main__.py",
    "api.py",
    "cli.py",
    "commands",
    "render",
    "studies",
    "scenarios",
    "toolkit.py",
)
"""Parts of the project that no measured figure rests on."""

Result = dict[str, Any]
"""What one trial gives; JSON can hold it."""


@dataclass(frozen=True)
class Trial:
    """One world to be made and measured.

    Attributes
    ----------
    experiment : name of the experiment it belongs to.
    name : what to call it in messages; unlike any other of the experiment.
    scenario : the world, seed included.
    settings : of the measurement; JSON can hold them.
    """

    experiment: str
    name: str
    scenario: Scenario
    settings: Mapping[str, Any] = field(default_factory=dict)


class Done(NamedTuple):
    """A finished trial."""

    trial: Trial
    result: Result


class PageFigure(NamedTuple):
    """A redrawn figure: ``name`` for its file, ``caption`` for its reader."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Experiment:
    """One experiment of the publication.

    Attributes
    ----------
    name : as in ``--only``.
    title : its heading.
    trials : given the seeds, and whether the reduced form is wanted (all of whose trials
        take seconds), the trials.
    measure : of one trial; a function at the top level of a module of the experiment's folder.
    section, gaps, pictures : of the finished trials; see the head of this module.
    """

    name: str
    title: str
    trials: Callable[[Sequence[int], bool], list[Trial]]
    measure: Callable[[Trial], Result]
    section: Callable[[Sequence[Done]], str]
    gaps: Callable[[Sequence[Done]], list[str]]
    pictures: Callable[[Sequence[Done]], list[PageFigure]]

    def key(self, trial: Trial) -> str:
        """Hash of all that the result of ``trial`` rests on."""
        world = trial.scenario.model_dump(mode="json", exclude={"name", "description"})
        rests = [fingerprint(_NO_MATTER), _sources(Path(inspect.getfile(self.measure)).parent)]
        content = json.dumps([*rests, self.name, dict(trial.settings), world], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=12).hexdigest()


@cache
def _sources(folder: Path) -> str:
    """Hash of the modules that measure: those of the folder, and this one."""
    digest = hashlib.blake2b(Path(__file__).read_bytes(), digest_size=8)
    for path in sorted(folder.rglob("*.py")):
        if not path.name.startswith("page"):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def simulated(scenario: Scenario) -> Iterator[Run]:
    """The simulated run of ``scenario``, in a temporary folder."""
    from prism_sim.toolkit import Run, simulate

    with working_folder() as folder:
        run = Run(folder)
        simulate(scenario, run)
        yield run


@contextmanager
def diagnosed(scenario: Scenario) -> Iterator[tuple[Run, Result]]:
    """The run of ``scenario``, diagnosed by the published method, and its score."""
    from llmprism.pipeline import diagnose_files
    from prism_sim.toolkit import score_run

    with simulated(scenario) as run:
        diagnose_files(run.flows, run.topology, method=METHOD).write(run.diagnosis_folder)
        yield run, score_run(run).to_json()


def published_method() -> StagedMethod:
    """The published method, whose stages can be run one by one."""
    from llmprism import methods
    from llmprism.methods.paper import StagedMethod

    method = methods.get(METHOD)
    assert isinstance(method, StagedMethod)
    return method
