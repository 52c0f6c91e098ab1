"""The telemetry of a family: how records are cut, and what disturbs them.

All quantities are continuous: a diagnosis cannot know a few settings by heart.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from prism_sim.families.dice import Dice, Maybe, Share, Span
from prism_sim.scenario.base import Closed


class Telemetry(Closed):
    """Ranges of the collector; every quantity is log-uniform."""

    message_boundary: Share = Field(
        description="Share of worlds whose records end with their messages, as no switch does."
    )
    idle_gap_ms: Span = Field(description="Silence that ends a record [ms].")
    active_timeout_s: Maybe | None = Field(
        default=None, description="Length at which a record is cut [s]."
    )
    headers: Share = Field(default=1.0, description="Share with packets and headers in the bytes.")
    tick_us: Maybe | None = Field(default=None, description="Unit of all times [us].")
    record_loss: Maybe | None = Field(default=None, description="Loss of a record.")
    packet_loss: Maybe | None = Field(
        default=None, description="Loss of a packet that is sent again; needs headers."
    )
    clock_offset_us: Maybe | None = Field(
        default=None, description="Standard deviation of the clocks of exporters [us]."
    )
    sampling_one_in: Maybe | None = Field(default=None, description="One packet in so many.")
    lateness_ms: Maybe | None = Field(
        default=None, description="Mean time from the end of a record to its arrival [ms]."
    )
    points: tuple[Literal["ingress", "egress", "both"], ...] = Field(
        default=("ingress",), description="Observation points."
    )
    acknowledgements: Share = Field(
        default=0.0, description="Share with records of acknowledgements; needs headers."
    )
    without_paths: Share = Field(default=0.0, description="Share of worlds without any path.")
    unknown_hop: Maybe | None = Field(default=None, description="Probability of an unknown hop.")
    split_paths: tuple[Literal["unknown", "one", "all"], ...] = Field(
        default=("unknown",),
        description="Records of messages that are split over several paths: without the switches "
        "between the leaves, with one path, or one record for each path.",
    )

    def draw(self, dice: Dice) -> dict[str, Any]:
        """The collector of one world."""
        collector: dict[str, Any] = {
            "idle_gap_us": 1e3 * dice.log_uniform("idle gap", self.idle_gap_ms),
            "message_boundary": dice.happens("message boundary", self.message_boundary),
        }
        timeout_s = dice.maybe("active timeout", self.active_timeout_s)
        if timeout_s is not None:
            collector["active_timeout_s"] = timeout_s
        headers = dice.happens("headers", self.headers)
        effects = [
            *(self._of_packets(dice) if headers else []),
            *self._of_records(dice),
            *self._of_paths(dice),
        ]
        return collector | {"effects": effects}

    def _of_packets(self, dice: Dice) -> list[dict[str, Any]]:
        effects: list[dict[str, Any]] = [{"kind": "headers"}]
        lost = dice.maybe("packet loss", self.packet_loss)
        if lost is not None:
            effects.append({"kind": "retransmissions", "probability": lost})
        if dice.happens("acknowledgements", self.acknowledgements):
            effects.append({"kind": "acknowledgements"})
        return effects

    def _of_records(self, dice: Dice) -> list[dict[str, Any]]:
        drawn = {
            "granularity": ("unit_ns", 1e3, dice.maybe("tick", self.tick_us)),
            "loss": ("probability", 1, dice.maybe("record loss", self.record_loss)),
            "clocks": ("offset_us", 1, dice.maybe("clock offset", self.clock_offset_us)),
            "sampling": ("one_in", 1, dice.maybe("sampling", self.sampling_one_in)),
            "lateness": ("delay_ms", 1, dice.maybe("lateness", self.lateness_ms)),
        }
        effects: list[dict[str, Any]] = [
            {"kind": kind, key: round(value * scale) if key in _WHOLE else value * scale}
            for kind, (key, scale, value) in drawn.items()
            if value is not None
        ]
        point = dice.choice("observation point", self.points)
        return effects + ([] if point == "ingress" else [{"kind": "observation", "point": point}])

    def _of_paths(self, dice: Dice) -> list[dict[str, Any]]:
        if dice.happens("without paths", self.without_paths):
            return [{"kind": "paths"}]
        unknown = dice.maybe("unknown hop", self.unknown_hop)
        effect: dict[str, Any] = {} if unknown is None else {"unknown_hop": unknown}
        split = dice.choice("split paths", self.split_paths)
        if split != "unknown":
            effect["split"] = split
        return [{"kind": "paths", **effect}] if effect else []


_WHOLE = frozenset({"unit_ns", "one_in"})
"""Options that are whole numbers."""
