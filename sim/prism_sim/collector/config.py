"""Configuration of the collector: how records are cut, and which effects disturb them."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Discriminator, Field, model_validator

from prism_sim.collector.counters import CounterConfig
from prism_sim.collector.effects import KINDS
from prism_sim.collector.effects.base import EffectBase
from prism_sim.collector.effects.headers import Headers
from prism_sim.scenario.base import Closed
from prism_sim.scenario.library import Transport

ORDER: tuple[type[EffectBase], ...] = tuple(KINDS.values())
"""Every effect, in the order in which they act."""

if TYPE_CHECKING:
    Effect: TypeAlias = EffectBase
else:
    Effect = Annotated[reduce(or_, ORDER), Discriminator("kind")]
    """Any effect; ``kind`` selects it."""


class CollectorConfig(Closed):
    """How transfers on the wire become flow records.

    By default: one exact record per message, observed at the source's leaf.
    """

    idle_gap_us: float = Field(default=1000.0, ge=1e-3, le=1e14)
    """Silence that ends a record within one message [us]. Default: 1 ms, short against the gap
    between two micro-batches and long against that between two packets. Practice: 15 s (default of
    Cisco Flexible NetFlow and Juniper JUNOSe), at least 1 s."""
    message_boundary: bool = True
    """A record ends with its message. False: only silence (and the limits below) ends it, as in a
    switch, which does not see messages."""
    active_timeout_s: float | None = Field(default=None, ge=1e-9, le=1e9)
    """A record that lasts longer is cut [s]; its bytes are shared in proportion to time. Left out:
    never. Practice: 1,800 (default of Cisco Flexible NetFlow, Juniper JUNOSe and Nokia cflowd); 60
    for live monitoring."""
    cache_entries: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Open records a switch can hold; the oldest is exported when one more opens. Left out: no
    limit. Needs message_boundary: false, since an exporter that sees messages is an ideal one
    without a table. Practice: 16 to 2,000,000 (Cisco Flexible NetFlow, cache entries); 64,000 on a
    Cisco 7200."""
    effects: tuple[Effect, ...] = ()
    """Effects on records, each kind at most once. They act in the order of a record's path through
    the network, not in the order listed here."""

    counters: CounterConfig | None = None
    """Counters of the NIC ports of all leaves, beside the flow records; `llmprism counters`
    diagnoses them. Left out: none are written."""

    @model_validator(mode="after")
    def _one_of_each(self) -> CollectorConfig:
        kinds = [effect.kind for effect in self.effects]
        twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
        if twice:
            raise ValueError(f"effects are listed twice: {', '.join(twice)}; keep one of each")
        if self.cache_entries is not None and self.message_boundary:
            raise ValueError(
                "cache_entries needs message_boundary: false; where records end with their "
                "messages there is no table that could be full"
            )
        lost = sorted(effect.kind for effect in self.effects if effect.needs_packets)
        if lost and not any(effect.counts for effect in self.effects):
            raise ValueError(f"{', '.join(lost)} need packets; add the effect headers")
        return self

    @property
    def transport(self) -> Transport | None:
        """Transport of jobs that give none themselves; None: the default of each job."""
        given = [effect.transport for effect in self.effects if isinstance(effect, Headers)]
        return given[0] if given else None

    @property
    def recuts(self) -> bool:
        """Whether records are cut by anything but the idle gap within a message."""
        return not self.message_boundary or self.active_timeout_s is not None

    def in_order(self) -> list[EffectBase]:
        """The effects in the order in which they act."""
        return sorted(self.effects, key=lambda effect: ORDER.index(type(effect)))

    def metadata(self) -> dict[str, str]:
        """Metadata of the flow table that describe how its records were cut."""
        notes = {"observation_point": "ingress", "idle_gap_ns": str(round(self.idle_gap_us * 1e3))}
        if self.active_timeout_s is not None:
            notes["active_timeout_ns"] = str(round(self.active_timeout_s * 1e9))
        for effect in self.in_order():
            notes |= effect.notes()
        return notes
