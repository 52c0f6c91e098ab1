"""What can happen to flow records, one file an effect.

A new effect is a new file with a class that derives from
:class:`~prism_sim.collector.effects.base.EffectBase`, and one place in :data:`Effect`: the
order there is the order in which effects act. Those with ``after_cutting`` act on finished
records, the others on what is on the wire before records are cut.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from prism_sim.collector.effects.acknowledgements import Acknowledgements
from prism_sim.collector.effects.base import EffectBase
from prism_sim.collector.effects.clocks import Clocks
from prism_sim.collector.effects.connections import Connections
from prism_sim.collector.effects.dns import Dns
from prism_sim.collector.effects.granularity import Granularity
from prism_sim.collector.effects.headers import Headers
from prism_sim.collector.effects.lateness import Lateness
from prism_sim.collector.effects.loss import Loss
from prism_sim.collector.effects.monitoring import Monitoring
from prism_sim.collector.effects.moved_addresses import MovedAddresses
from prism_sim.collector.effects.nat import Nat
from prism_sim.collector.effects.observation import Observation
from prism_sim.collector.effects.outages import Outages
from prism_sim.collector.effects.paths import Paths
from prism_sim.collector.effects.rendezvous import Rendezvous
from prism_sim.collector.effects.retransmissions import Retransmissions
from prism_sim.collector.effects.sampling import Sampling
from prism_sim.collector.effects.silent import SilentSwitches
from prism_sim.collector.effects.waiting import Waiting

Effect: TypeAlias = Annotated[
    Headers
    | Acknowledgements
    | Waiting
    | Connections
    | Rendezvous
    | Dns
    | Monitoring
    | Observation
    | Retransmissions
    | SilentSwitches
    | Nat
    | MovedAddresses
    | Sampling
    | Lateness
    | Loss
    | Outages
    | Clocks
    | Granularity
    | Paths,
    Field(discriminator="kind"),
]
"""Any effect; ``kind`` selects it."""

ORDER: tuple[type[EffectBase], ...] = get_args(get_args(Effect)[0])
"""Every effect, in the order in which they act."""

__all__ = ["ORDER", "Effect", "EffectBase"]
