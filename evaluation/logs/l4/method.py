"""The method of L4 for one job after the other.

1. Templates that successful jobs of the same user have are left out (*cross-job*).
2. Isolation Forest over numbers of lines by node ranks nodes and events (*spatial*).
3. Templates that occur before the last ten iterations are left out, and iterations in windows of
   ten, compared by dynamic time warping, show where a job became slow (*temporal*).

What the paper does not publish was chosen: events are all that are left and not spread evenly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from evaluation.logs.l4.counting import WINDOW, Counted, Library, Miner, Template
from llmlog.diagnosis import Failure
from llmlog.evidence import Event, Writer
from llmlog.progress import Iteration
from llmlog.reading import Job
from llmlog.streams import Intake
from llmlog.understanding import COMPLETED

_WAITED = re.compile(r"(?i)time.?out|timed out|hang|hung|stuck")
_CONFIDENCE = 0.5


@dataclass(frozen=True)
class Settings:
    """What the paper does not publish, or what a user may lack.

    Attributes
    ----------
    same_user : compare with successful jobs of the same user only.
    temporal : leave out templates that occur earlier.
    uneven : leave out templates that all nodes have equally often.
    """

    same_user: bool = True
    temporal: bool = True
    uneven: bool = True


class L4:
    """Diagnoses jobs; numbers of templates and the library are kept from job to job."""

    def __init__(
        self,
        library: Library | None = None,
        settings: Settings | None = None,
        miner: Miner | None = None,
    ) -> None:
        self.library = library or Library()
        self.settings = settings or Settings()
        self.miner = miner or Miner()

    def diagnose(
        self, jobs: Sequence[Job], healthy: Sequence[Job], intake: Intake
    ) -> Iterator[tuple[Counted, Failure | None]]:
        """Diagnose ``jobs``; successful ones among them, and ``healthy``, are compared with."""
        completed = [job for job in jobs if job.state == COMPLETED]
        done = {id(job): self.healthy(job, intake) for job in [*healthy, *completed]}
        for job in jobs:
            if job.state == COMPLETED:
                yield done[id(job)], None
            else:
                counted = self.miner.count(job, intake)
                yield counted, self.diagnose_job(counted, done.values())

    def healthy(self, job: Job, intake: Intake) -> Counted:
        """The templates of a successful job, without their lines."""
        counted = self.miner.count(job, intake)
        counted.templates = {
            number: Template(one.text, one.level) for number, one in counted.templates.items()
        }
        return counted

    def diagnose_job(self, job: Counted, healthy: Iterable[Counted]) -> Failure | None:
        """The answer for one failed job; None if no event is left and nothing became slow."""
        left = other_jobs(job, self._comparable(job.job, healthy))
        nodes, splits = over_nodes(left, job.job.nodes)
        slow = slow_window(job.progress.iterations)
        events = self._answer(left, job)
        if job.job.state is None and not events and slow is None:
            return None
        ranked = sorted(events, key=lambda number: (-splits[number], number))
        texts = [events[number].text for number in ranked]
        stage = _stage(job, texts, slow)
        iteration = slow.number if stage == "slow" and slow else job.progress.next
        return Failure(
            job.job.name,
            stage,
            nodes,
            [],
            None if stage == "launch" else iteration,
            self.library.causes(texts),
            _CONFIDENCE,
            [event for number in ranked for event in _events(events[number])],
        )

    def _comparable(self, job: Job, healthy: Iterable[Counted]) -> list[Counted]:
        """Successful jobs of the same user; those without a user are compared with all."""
        return [
            other
            for other in healthy
            if not self.settings.same_user or other.job.user in (job.user, None)
        ]

    def _answer(self, left: Templates, job: Counted) -> Templates:
        if self.settings.temporal:
            left = {number: one for number, one in left.items() if not one.earlier}
        if self.settings.uneven:
            uneven = {number: one for number, one in left.items() if _uneven(one, job.job.nodes)}
            left = uneven or left
        return left


def _uneven(template: Template, nodes: Sequence[str]) -> bool:
    return len({template.nodes[node] for node in nodes}) > 1


def _stage(job: Counted, texts: Sequence[str], slow: Iteration | None) -> str:
    if job.progress.last is None:
        return "launch"
    if slow is not None:
        return "slow"
    return "hang" if any(_WAITED.search(text) for text in texts) else "crash"


def _events(template: Template) -> Iterator[Event]:
    """An event for each line that is kept."""
    for file, line, node in template.places:
        writer = Writer(node, None)
        yield Event("template", "", writer, None, file, line, "", template.text, role="cause")


# The three comparisons of L4: with other jobs, between nodes, and over time.

Templates = dict[int, Template]
_TREES, _SEED, _SIGMAS = 100, 0, 3.0
FEWEST_NODES = 3
"""An outlier needs at least two others."""


def other_jobs(job: Counted, healthy: Iterable[Counted]) -> Templates:
    """Templates that successful jobs do not have; all if there is no such job."""
    usual: set[int] = set()
    for other in healthy:
        usual |= other.templates.keys()
    return {number: one for number, one in job.templates.items() if number not in usual}


def over_nodes(templates: Templates, nodes: Sequence[str]) -> tuple[list[str], Counter[int]]:
    """Nodes from the most to the least anomalous, and how often each event isolates the first.

    Features are numbers of lines by template. Isolation Forest gives each node a score; an event
    counts once for each split on it along the paths of the most anomalous node.
    """
    numbers = sorted(templates)
    if len(nodes) < FEWEST_NODES or not numbers:
        return _by_count(templates, nodes), Counter()
    counts = np.array([[templates[k].nodes[node] for k in numbers] for node in nodes], float)
    forest = _forest(counts)
    order = np.argsort(forest.score_samples(counts), kind="stable")
    splits: Counter[int] = Counter()
    outlier = counts[order[:1]].astype(np.float32)
    for tree, features in zip(forest.estimators_, forest.estimators_features_, strict=True):
        path = tree.tree_.decision_path(outlier).indices
        used = tree.tree_.feature[path]
        splits.update(numbers[features[feature]] for feature in used if feature >= 0)
    return [nodes[place] for place in order], splits


def _by_count(templates: Templates, nodes: Sequence[str]) -> list[str]:
    total = Counter[str | None]()
    for template in templates.values():
        total.update(template.nodes)
    return sorted(nodes, key=lambda node: -total[node])


def _forest(counts: NDArray[np.float64]) -> Any:
    return _fitted(counts.tobytes(), counts.shape)


@lru_cache(4)
def _fitted(counts: bytes, sizes: tuple[int, int]) -> Any:
    """The forest of a table; other choices for the same job have the same one."""
    return IsolationForest(n_estimators=_TREES, random_state=_SEED).fit(
        np.frombuffer(counts).reshape(sizes)
    )


def slow_window(iterations: Sequence[Iteration]) -> Iteration | None:
    """The first iteration of the first window that differs from the one before by three sigma.

    Windows have ten iterations. Their distance is that of dynamic time warping of the lengths of
    iterations; a window counts if it is longer than the one before.
    """
    timed = [one for one in iterations if one.seconds is not None]
    windows = [timed[i : i + WINDOW] for i in range(0, len(timed) - WINDOW + 1, WINDOW)]
    lengths = [[one.seconds or 0.0 for one in window] for window in windows]
    distances = [warped(a, b) for a, b in pairwise(lengths)]
    for place, distance in enumerate(distances):
        others = distances[:place] + distances[place + 1 :]
        far = len(others) > 1 and distance > fmean(others) + _SIGMAS * pstdev(others)
        if far and fmean(lengths[place + 1]) > fmean(lengths[place]):
            return windows[place + 1][0]
    return None


def warped(a: Sequence[float], b: Sequence[float]) -> float:
    """The distance of two series by dynamic time warping, with absolute differences.

    >>> warped([1, 1, 2], [1, 2, 2])
    0.0
    """
    row = [0.0] + [float("inf")] * len(b)
    for x in a:
        last, row = row, [float("inf")]
        for place, y in enumerate(b):
            row.append(abs(x - y) + min(last[place], last[place + 1], row[place]))
    return row[-1]
