"""Effects on flow records.

A new effect is a class that derives from
:class:`~prism_sim.collector.effects.base.EffectBase` and has a literal ``kind``, and one entry in
:data:`KINDS` below, or an entry point ``prism_sim.effects`` of another package. The order of
:data:`KINDS` is the order in which effects act; those of other packages come last. Effects with
``after_cutting`` act on finished records, the others on transfers before they are cut.
"""

from __future__ import annotations

from prism_sim.collector.effects.acknowledgements import Acknowledgements
from prism_sim.collector.effects.addresses import MovedAddresses, Nat
from prism_sim.collector.effects.base import EffectBase
from prism_sim.collector.effects.connections import Connections
from prism_sim.collector.effects.headers import Headers, Observation
from prism_sim.collector.effects.missing import Loss, Outages, Sampling, SilentSwitches
from prism_sim.collector.effects.paths import Paths
from prism_sim.collector.effects.rendezvous import Rendezvous
from prism_sim.collector.effects.retransmissions import Retransmissions
from prism_sim.collector.effects.service import Dns, Monitoring, Pings
from prism_sim.collector.effects.times import Clocks, Granularity, Lateness
from prism_sim.collector.effects.waiting import Waiting
from prism_sim.registry import Registry, by_literal

KINDS: Registry[type[EffectBase]] = Registry(
    "prism_sim.effects", Headers, Acknowledgements, Waiting, Connections, Rendezvous, Dns,
    Monitoring, Pings, Observation, Retransmissions, SilentSwitches, Nat, MovedAddresses, Sampling,
    Lateness, Loss, Outages, Clocks, Granularity, Paths, name_of=by_literal,
)  # fmt: skip
"""The class of each kind of effect, by its name in a scenario."""

__all__ = ["KINDS", "EffectBase"]
