"""The shares of a message on the parallel links between two leaves.

A message is split at each switch of its way that has equal links to its destination, as the kind of
routing says. The share of a link is the product of the shares before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.layout import Layout
from prism_sim.cluster.merging import Leg, Spread
from prism_sim.scenario.routing import RoutingBase

Shares = Mapping[int, float]
"""The share of a message, by number of a link or a switch."""


@dataclass
class Conditions:
    """What is wrong with links, beyond their capacity.

    Attributes
    ----------
    speed : present rate of a link as a share of the healthy one.
    repeats : packets sent again for each packet that passes a link.
    uneven : factor on the weight of an uplink, by leaf and number.
    """

    speed: dict[int, float] = field(default_factory=dict)
    repeats: dict[int, float] = field(default_factory=dict)
    uneven: dict[tuple[int, int], float] = field(default_factory=dict)


class Spreading:
    """Splits messages between leaves.

    Parameters
    ----------
    layout : the cluster.
    routing : a kind that splits messages.
    conditions : of links; they may change.
    """

    def __init__(self, layout: Layout, routing: RoutingBase, conditions: Conditions) -> None:
        self._layout, self._routing, self._conditions = layout, routing, conditions

    def between(
        self, a: int, b: int, uplinks: Sequence[int], cables: Callable[[int], Sequence[int]]
    ) -> tuple[Spread, tuple[tuple[int, ...], ...], tuple[float, ...]]:
        """How a message from leaf ``a`` to leaf ``b`` is spread.

        Parameters
        ----------
        uplinks : of ``a`` that may be used.
        cables : uplinks of ``b`` that lead to a spine, by the spine's number.

        Returns
        -------
        spread : the share of each link.
        crossed, shares : the switches between the leaves on each way, and its part of a message.
        """
        topology, layout = self._layout.topology, self._layout
        up = {layout.up(a, u): share for u, share in self._upwards(a, b, uplinks, cables).items()}
        spine_of = {layout.up(a, u): int(topology.spine_of(a, u)) for u in uplinks}
        first = _summed((spine_of[link], share) for link, share in up.items())
        leaves, legs = len(topology.leaves), [up]
        ways: dict[tuple[int, ...], float]
        if topology.pod_of(a) == topology.pod_of(b):
            ways = {(leaves + spine,): share for spine, share in first.items()}
            last = first
        else:
            through, ways = self._through_cores(first, b, cables)
            legs += through
            last = _summed((way[-1] - leaves, share) for way, share in ways.items())
        down = _summed(
            (layout.down(b, cable), share * part)
            for spine, share in last.items()
            for cable, part in self._evenly(b, cables(spine)).items()
        )
        spread = Spread(tuple(map(_leg, [*legs, down])), self._repeated([*legs, down]))
        return spread, tuple(ways), tuple(ways.values())

    def _upwards(
        self, a: int, b: int, uplinks: Sequence[int], cables: Callable[[int], Sequence[int]]
    ) -> Shares:
        """Share of each uplink of leaf ``a``."""
        layout, topology = self._layout, self._layout.topology
        rates = np.array([self._rate(layout.up(a, u)) for u in uplinks])
        if self._routing.follows_rates and topology.pod_of(a) == topology.pod_of(b):
            spines = [int(topology.spine_of(a, u)) for u in uplinks]
            beyond = {
                spine: sum(self._rate(layout.down(b, cable)) for cable in cables(spine))
                for spine in set(spines)
            }
            rates = np.minimum(rates, [beyond[spine] / spines.count(spine) for spine in spines])
        factors = np.array([self._conditions.uneven.get((a, u), 1.0) for u in uplinks])
        weights = self._split(rates, uplinks) * factors
        shares = zip(uplinks, (weights / weights.sum()).tolist(), strict=True)
        return {uplink: share for uplink, share in shares if share > 0}

    def _evenly(self, leaf: int, cables: Sequence[int]) -> Shares:
        """Share of each cable from a spine down to ``leaf``."""
        rates = np.array([self._rate(self._layout.down(leaf, cable)) for cable in cables])
        return dict(zip(cables, self._split(rates, ()).tolist(), strict=True))

    def _through_cores(
        self, first: Shares, b: int, cables: Callable[[int], Sequence[int]]
    ) -> tuple[list[dict[int, float]], dict[tuple[int, ...], float]]:
        """Shares of the links to cores and from them, and of each way over spine, core, spine."""
        layout, topology = self._layout, self._layout.topology
        leaves, spines = len(topology.leaves), len(topology.spines)
        pod = topology.pod_of(b) * topology.spines_per_pod
        near = [spine for spine in range(pod, pod + topology.spines_per_pod) if cables(spine)]
        up: dict[int, float] = defaultdict(float)
        down: dict[int, float] = defaultdict(float)
        ways: dict[tuple[int, ...], float] = defaultdict(float)
        for spine, share in first.items():
            links = [layout.core_up(spine, u) for u in range(topology.core_uplinks)]
            parts = self._split(np.array([self._rate(link) for link in links]), ())
            for uplink, (link, part) in enumerate(zip(links, parts.tolist(), strict=True)):
                up[link] += share * part
                core = int(topology.core_of(spine, uplink))
                for far in near:
                    ways[leaves + spine, leaves + spines + core, leaves + far] += (
                        share * part / len(near)
                    )
        for (_, core, far), share in ways.items():
            own = topology.uplinks_to_core(core - leaves - spines)
            for uplink in own:
                down[layout.core_down(far - leaves, uplink)] += share / len(own)
        return [up, down], ways

    def _split(self, rates: NDArray[np.float64], uplinks: Sequence[int]) -> NDArray[np.float64]:
        share = self._routing.shares(rates, uplinks)
        assert share is not None  # only such kinds are spread
        return share

    def _rate(self, link: int) -> float:
        return float(self._layout.capacity[link]) * self._conditions.speed.get(link, 1.0)

    def _repeated(self, legs: Sequence[Shares]) -> float:
        """Bytes on the wire for each useful byte."""
        repeats = self._conditions.repeats
        if not repeats:
            return 1.0
        return 1.0 + sum(
            share * repeats.get(link, 0.0) for leg in legs for link, share in leg.items()
        )


def _summed(parts: Iterable[tuple[int, float]]) -> dict[int, float]:
    """The shares of each number together."""
    total: dict[int, float] = defaultdict(float)
    for number, share in parts:
        total[number] += share
    return total


def _leg(shares: Shares) -> Leg:
    links = np.array(sorted(shares), np.int64)
    return Leg(links, np.array([shares[link] for link in links.tolist()]))
