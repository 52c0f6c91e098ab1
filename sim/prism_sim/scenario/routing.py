"""Routing: how switches share messages among equal paths.

Where several equal paths lead from one leaf to another, a kind does one of three things: it keeps
the path that a hash gave a connection, it chooses one path for each message (or burst), or it
splits each message over all of them. A new kind is a class that derives from :class:`RoutingBase`
and has a literal ``kind``, and one entry in :data:`ROUTINGS`; or an entry point
``prism_sim.routings`` of another package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.registry import Registry, by_literal
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


# Equal-cost multi-path: a hash of the 5-tuple gives each connection one path.
class Ecmp(RoutingBase):
    """A connection keeps the path that the hashes of the switches give its 5-tuple (RFC 2992)."""

    kind: Literal["ecmp"] = "ecmp"


# Flowlets: after a silence, a connection may take another path, and no packet can overtake.
class Flowlet(RoutingBase):
    """A message that begins after ``gap_us`` of silence of its connection takes a new path.

    References: Vanini et al., LetFlow, NSDI'17 (random paths); Alizadeh et al., CONGA, SIGCOMM'14
    (least loaded paths). Both use gaps of a few hundred microseconds.
    """

    kind: Literal["flowlet"] = "flowlet"
    gap_us: float = Field(default=500.0, ge=0, le=1e9)
    """Silence of a connection after which a switch chooses again [us]. Default: 500, as in LetFlow
    and CONGA."""
    choose: Literal["random", "least_loaded"] = "random"
    """The new path: random (LetFlow), or least_loaded (CONGA)."""

    @property
    def choice(self) -> Choice | None:
        return Choice(round(self.gap_us * 1e3), self.choose == "least_loaded")


# Adaptive routing: switches send where least waits.
class Adaptive(RoutingBase):
    """The least loaded of the equal paths, for each message or for each burst of packets.

    A message of many bursts that each take the shortest queue loads all paths, in proportion to
    their rates: a slow link gets less. Loads are those of whole paths: switches tell each other.

    References: NVIDIA Spectrum-X (RoCE adaptive routing for each packet, by the load of egress
    ports) and InfiniBand's adaptive routing, with its notifications of remote congestion.
    """

    follows_rates: ClassVar[bool] = True

    kind: Literal["adaptive"] = "adaptive"
    per: Literal["message", "burst"] = "burst"
    """message: each message takes the path that is least loaded when it begins. burst: a message
    takes all paths, in proportion to their present rates."""

    @property
    def choice(self) -> Choice | None:
        return Choice(0, by_load=True) if self.per == "message" else None

    def shares(self, rates: Floats, uplinks: Sequence[int]) -> Floats | None:
        if self.per == "message":
            return None
        share: Floats = rates / rates.sum()
        return share


# Packet spraying: each message over all equal paths.
class Spray(RoutingBase):
    """Every message is spread over all equal paths, evenly or by weights, whatever their load.

    A path that is slow delays all messages: each waits for its share on it.

    References: Dixit et al., On the impact of packet spraying in data center networks, INFOCOM'13;
    Ultra Ethernet Specification 1.0 (each packet of a message has an entropy value of its own).
    """

    kind: Literal["spray"] = "spray"
    weights: tuple[Annotated[float, Field(gt=0, le=1e6)], ...] | None = Field(
        default=None, min_length=1, max_length=1_000_000
    )
    """Weight of each uplink of a leaf, by number; repeated if there are more uplinks. Left out: all
    equal."""

    def shares(self, rates: Floats, uplinks: Sequence[int]) -> Floats | None:
        weights = np.ones(len(rates))
        if self.weights is not None and len(uplinks):
            weights = np.array([self.weights[u % len(self.weights)] for u in uplinks])
        share: Floats = weights / weights.sum()
        return share


ROUTINGS: Registry[type[RoutingBase]] = Registry(
    "prism_sim.routings", Ecmp, Flowlet, Adaptive, Spray, name_of=by_literal
)
"""Every kind of routing by its name in a scenario."""
