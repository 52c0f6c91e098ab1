"""The three comparisons of L4: with other jobs, between nodes, and over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from evaluation.logs.l4.counting import WINDOW, Counted, Template
from llmlog.progress import Iteration

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
