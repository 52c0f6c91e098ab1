"""Which server fails: servers differ, and some fail again and again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pydantic import Field

from prism_sim.scenario.base import Closed


class Offenders(Closed):
    """A few servers have a share of all failures.

    In InfiniteHBD's trace, 23 of 400 servers have 28 % of the faults.
    """

    part: float = Field(default=0.0575, gt=0, lt=1, description="part of the servers")
    share: float = Field(default=0.28, gt=0, lt=1, description="part of the failures")

    @property
    def excess(self) -> float:
        """Part of their failures that they would not have as ordinary servers."""
        ordinary = (1 - self.share) / (1 - self.part)
        return max(0.0, 1 - ordinary * self.part / self.share)


def draw_servers(
    stream: np.random.Generator, servers: int, size: int, offenders: Offenders | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Numbers of the failing servers, and whether they fail for being offenders."""
    if offenders is None:
        return stream.integers(servers, size=size), np.zeros(size, dtype=bool)
    few = max(1, round(offenders.part * servers))
    is_offender = stream.random(size) < offenders.share
    first, number = np.where(is_offender, 0, few), np.where(is_offender, few, servers - few)
    placed = first + (stream.random(size) * np.maximum(number, 1)).astype(np.int64)
    repeated = is_offender & (stream.random(size) < offenders.excess)
    return np.minimum(placed, servers - 1), repeated
