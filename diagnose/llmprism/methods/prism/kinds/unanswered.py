"""Pipelines that show within a single step: stages send several messages before they get answers.

The first stage of a pipeline sends activations ahead, one for each stage that follows, or all of a
step, before the first gradient returns. In exchanges both directions begin at about the same time.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.kinds.characters import character_of
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Ints

UNANSWERED = 2  # messages that go one way before any goes the other


def sends_ahead(
    connections: Connections, one: TrafficClass, step: Codes, count: int, nodes: int
) -> bool:
    """Whether a class is of a pipeline whose first stage sends ahead in each of ``count`` steps.

    ``step`` has the step of each record, ``nodes`` is the number of endpoints of all traffic.
    """
    if not one.two_way or not character_of(connections, one, step, count, nodes).is_pipeline:
        return False
    ahead = np.array([_unanswered(one.traffic, step == i) for i in range(count)])
    return bool((ahead.min(axis=0) >= UNANSWERED).any())


def _unanswered(traffic: Traffic, chosen: Codes) -> Ints:
    """How many of the ``chosen`` records of each couple go one way before one goes the other."""
    way = traffic.couple * 2 + traffic.forth
    first_ns = np.full(2 * (int(traffic.couple.max()) + 1), np.iinfo(np.int64).max)
    np.minimum.at(first_ns, way[chosen], traffic.start_ns[chosen])
    ahead = chosen & (traffic.start_ns < first_ns[way ^ 1])
    return np.bincount(traffic.couple[ahead], minlength=first_ns.size // 2)
