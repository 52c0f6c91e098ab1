"""A switch that forwards below its rate: a failed line card, a hot chip, wrong buffers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.faults.base import FaultBase


class SlowSwitch(FaultBase):
    """Every link of one switch runs at factor of its rate, in both directions."""

    kind: Literal["slow_switch"] = "slow_switch"
    switch: str = Field(description="The switch, such as leaf000 or spine01.")
