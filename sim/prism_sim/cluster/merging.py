"""Links that all transfers load in one proportion are one link of the core.

If every transfer that uses link i puts rho times as much on link j, then j is full exactly when i
carries ``capacity of j / rho``. So both are one link with the smaller of the two limits, and the
max-min rates stay the same. Where each message is spread evenly over 64 uplinks, a transfer uses
four links instead of 130.

Links are *merged* into one, their *representative*, as far as that is true for all
:class:`Leg` s that are in use. A leg that loads some of them in another proportion splits them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.state import Int64s, grown

Floats = NDArray[np.float64]
SAME = 1e-9
"""Proportions that differ by a smaller fraction are equal, up to rounding."""


@dataclass(frozen=True, eq=False)
class Leg:
    """Parallel links of one tier and direction that share a transfer.

    Attributes
    ----------
    links : numbers of directed links, ascending, shape (links,).
    shares : the part of the transfer on each, above zero, shape (links,).
    """

    links: Int64s
    shares: Floats

    def equals(self, other: Leg) -> bool:
        """Whether both load the same links alike."""
        if len(self.links) != len(other.links):
            return False
        return bool((self.links == other.links).all() and np.allclose(self.shares, other.shares))


@dataclass(frozen=True, eq=False)
class Spread:
    """The parallel links from one leaf to another, tier by tier.

    Attributes
    ----------
    legs : in the order of the path.
    repeated : bytes on the wire for each useful byte: more than 1 where packets are lost.
    """

    legs: tuple[Leg, ...]
    repeated: float = 1.0

    @cached_property
    def links(self) -> list[int]:
        """All links, in the order of the path."""
        return [link for leg in self.legs for link in leg.links.tolist()]

    def equals(self, other: Spread) -> bool:
        """Whether both load the same links alike."""
        alike = len(self.legs) == len(other.legs) and self.repeated == other.repeated
        return alike and all(a.equals(b) for a, b in zip(self.legs, other.legs, strict=True))


class Merging:
    """The representative of every link, and the load of the link relative to it.

    Attributes
    ----------
    edition : counts changes of representatives.
    """

    def __init__(self) -> None:
        self._of = np.zeros(0, np.int64)
        self._ratio = np.zeros(0)
        self._used = np.zeros(0, bool)
        self._members: dict[int, Int64s] = {}
        self.edition = 0

    def admit(self, leg: Leg) -> bool:
        """Split links that ``leg`` loads in other proportions; return whether some were split."""
        self._reserve(int(leg.links[-1]) + 1)
        known = self._used[leg.links]
        if not known.all():
            self._merge(leg.links[~known], leg.shares[~known])
        share = dict(zip(leg.links.tolist(), leg.shares.tolist(), strict=True))
        split = False
        for first in np.unique(self._of[leg.links[known]]).tolist():
            members = self._members[first]
            load = np.array([share.get(link, 0.0) for link in members.tolist()])
            split |= self._split(members, load / self._ratio[members])
        return split

    def merged(self, leg: Leg) -> tuple[Int64s, Floats]:
        """The representatives of the links of ``leg``, and the share of the transfer on each."""
        first, place = np.unique(self._of[leg.links], return_index=True)
        return first, leg.shares[place] / self._ratio[leg.links[place]]

    def limits(self, capacity: Floats) -> Floats:
        """Capacity of each representative, where that of each link is ``capacity``."""
        limit = capacity.copy()
        known = np.flatnonzero(self._used)
        limit[self._of[known]] = np.inf
        np.minimum.at(limit, self._of[known], capacity[known] / self._ratio[known])
        return limit

    def limit_of(self, link: int, capacity: Floats) -> tuple[int, float]:
        """The representative of ``link``, and its capacity."""
        if link >= len(self._used) or not self._used[link]:
            return link, float(capacity[link])
        first = int(self._of[link])
        members = self._members[first]
        return first, float((capacity[members] / self._ratio[members]).min())

    def _merge(self, links: Int64s, loads: Floats) -> None:
        """Merge ``links``, which have the relative ``loads``."""
        most = int(np.argmax(loads))
        first = int(links[most])
        self._of[links], self._ratio[links] = first, loads / loads[most]
        self._used[links] = True
        self._members[first] = links
        self.edition += 1

    def _split(self, members: Int64s, load: Floats) -> bool:
        """Split merged ``members`` by their ``load`` relative to the present proportions."""
        order = np.argsort(load, kind="stable")
        step = np.diff(load[order]) > SAME * load.max()
        if not step.any():
            return False
        for part in np.split(members[order], np.flatnonzero(step) + 1):
            self._merge(np.sort(part), self._ratio[np.sort(part)])
        return True

    def _reserve(self, links: int) -> None:
        old = len(self._of)
        if links > old:
            self._of = np.concatenate((self._of, np.arange(old, 2 * links)))
            self._ratio = np.concatenate((self._ratio, np.ones(2 * links - old)))
            self._used = grown(self._used, 2 * links)
