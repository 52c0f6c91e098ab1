"""The definition of an experiment of the publication, and the code that all of them share.

An experiment is a folder of this package and one line in :data:`..EXPERIMENTS`:

- ``measure.py`` (and the modules that it needs) lists the trials and measures one of them;
- ``page.py`` makes text and tables from the results.

A :class:`Trial` is one scenario and is measured in a worker process. ``measure`` gets the trial,
makes the files that it needs (:func:`diagnosed` simulates, diagnoses and scores in a temporary
folder), and returns values that JSON can hold. Large arrays are returned as quantiles or
histograms. The result is saved in a file under the trial's key. The key covers the scenario,
``settings``, the simulator, the diagnoser, and the modules of the experiment. Modules whose name
begins with ``page`` are not part of the key, so a changed sentence repeats no run.

``page.py`` has two functions of the finished trials. At least one trial has finished; others may
have failed. Neither simulates anything:

- ``section``: Markdown below the experiment's heading, which compares published figures with ours,
  as mean and range over the seeds;
- ``gaps``: sentences about figures that cannot be reproduced, with the reasons.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from llmprism import methods
from llmprism.methods.paper import StagedMethod
from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, fingerprint, score_run, simulated

METHOD = "paper"
"""The method whose evaluation is reproduced."""

OTHER_METHOD = "prism"
"""The method that is measured on the same records, beside the reproduced one."""

_WITHOUT_EFFECT = (
    "__main__.py",
    "api.py",
    "cli.py",
    "commands",
    "render",
    "studies",
    "scenarios",
    "toolkit.py",
)
"""Parts of the simulator that have no effect on a measured figure."""

Result = dict[str, Any]
"""Result of one trial; JSON can hold it."""


@dataclass(frozen=True)
class Trial:
    """One scenario to simulate and measure.

    Attributes
    ----------
    experiment : name of its experiment.
    name : for messages; unique in the experiment.
    scenario : with its seed.
    settings : options of the measurement; JSON can hold them.
    """

    experiment: str
    name: str
    scenario: Scenario
    settings: Mapping[str, Any] = field(default_factory=dict)


class Done(NamedTuple):
    """A finished trial."""

    trial: Trial
    result: Result


@dataclass(frozen=True)
class Experiment:
    """One experiment of the publication.

    Attributes
    ----------
    name : for ``--only``.
    title : heading of its section.
    trials : lists the trials for some seeds; with True, those of the reduced form, which take
        seconds each.
    measure : measures one trial; a top-level function of a module in the experiment's folder.
    section, gaps : take the finished trials; see the docstring of this module.
    """

    name: str
    title: str
    trials: Callable[[Sequence[int], bool], list[Trial]]
    measure: Callable[[Trial], Result]
    section: Callable[[Sequence[Done]], str]
    gaps: Callable[[Sequence[Done]], list[str]]

    @classmethod
    def of(cls, name: str, title: str, folder: str) -> Experiment:
        """The experiment in a folder of this package, from its two modules."""
        measured, page = (
            import_module(f"{__package__}.{folder}.{part}") for part in ("measure", "page")
        )
        return cls(name, title, measured.trials, measured.measure, page.section, page.gaps)

    def key(self, trial: Trial) -> str:
        """Hash of everything that the result of ``trial`` depends on."""
        scenario = trial.scenario.model_dump(mode="json", exclude={"name", "description"})
        sources = [
            fingerprint(_WITHOUT_EFFECT),
            sources_digest(Path(inspect.getfile(self.measure)).parent),
        ]
        content = json.dumps([*sources, self.name, dict(trial.settings), scenario], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=12).hexdigest()


@cache
def sources_digest(folder: Path) -> str:
    """Hash of the modules of the folder that measure, and of this module."""
    digest = hashlib.blake2b(Path(__file__).read_bytes(), digest_size=8)
    for path in sorted(folder.rglob("*.py")):
        if not path.name.startswith("page"):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def diagnosed(scenario: Scenario) -> Iterator[tuple[Run, Result]]:
    """Simulate ``scenario``, apply the published method, and yield the run and its score."""
    with simulated(scenario) as run:
        diagnose(run.flows, run.topology, method=METHOD).write(run.diagnosis_folder)
        yield run, score_run(run).to_json()


def published_method() -> StagedMethod:
    """The published method; its stages can be run one by one."""
    method = methods.get(METHOD)
    assert isinstance(method, StagedMethod)
    return method


def connected(
    src: NDArray[np.integer[Any]], dst: NDArray[np.integer[Any]], nodes: int
) -> NDArray[np.int64]:
    """Number of the connected component of each node, shape (nodes,)."""
    edges = coo_array((np.ones(len(src), np.int8), (src, dst)), shape=(nodes, nodes))
    _, labels = connected_components(edges, directed=False)
    return np.asarray(labels, np.int64)
