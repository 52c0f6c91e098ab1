"""The base of all kinds of routing.

Where several equal paths lead from one leaf to another, a kind does one of three things: it keeps
the path that a hash gave a connection, it chooses one path for each message (or burst), or it
splits each message over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_sim.scenario.base import Closed

Floats = NDArray[np.float64]


class Choice(NamedTuple):
    """How a message chooses its path.

    Attributes
    ----------
    silent_ns : silence of its connection after which it may take another path than the last one.
    by_load : whether it takes the least loaded path; otherwise a hash decides.
    """

    silent_ns: int
    by_load: bool


class RoutingBase(Closed):
    """What switches do with equal paths; each kind adds its options as fields.

    Attributes
    ----------
    follows_rates : whether shares change with the present rates of links.
    """

    follows_rates: ClassVar[bool] = False

    kind: str

    @property
    def splits(self) -> bool:
        """Whether it splits messages over equal paths."""
        return self.shares(np.ones(1), ()) is not None

    @property
    def choice(self) -> Choice | None:
        """How each message chooses one path; None if it does not."""
        return None

    def shares(self, rates: Floats, uplinks: Sequence[int]) -> Floats | None:
        """The share of a message on each of some equal links; None if one link carries all of it.

        Parameters
        ----------
        rates : present rate of the path over each of them [bytes/ns], shape (links,).
        uplinks : their numbers at the leaf that sends; empty further on.
        """
        return None
