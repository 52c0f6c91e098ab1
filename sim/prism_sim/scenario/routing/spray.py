"""Packet spraying: each message over all equal paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from prism_sim.scenario.routing.base import Floats, RoutingBase


class Spray(RoutingBase):
    """Every message is spread over all equal paths, evenly or by weights, whatever their load.

    A path that is slow delays all messages: each waits for its share on it.

    References: Dixit et al., On the impact of packet spraying in data center networks, INFOCOM'13;
    Ultra Ethernet Specification 1.0 (each packet of a message has an entropy value of its own).
    """

    kind: Literal["spray"] = "spray"
    weights: tuple[Annotated[float, Field(gt=0, le=1e6)], ...] | None = Field(
        default=None,
        min_length=1,
        max_length=1_000_000,
        description="Weight of each uplink of a leaf, by number; repeated if there are more "
        "uplinks. Left out: all equal.",
    )

    def shares(self, rates: Floats, uplinks: Sequence[int]) -> Floats | None:
        weights = np.ones(len(rates))
        if self.weights is not None and len(uplinks):
            weights = np.array([self.weights[u % len(self.weights)] for u in uplinks])
        share: Floats = weights / weights.sum()
        return share
