"""What can go wrong in a simulated cluster, one file a kind.

A new kind is a new file with a class that derives from
:class:`~prism_sim.faults.base.FaultBase` and has a literal ``kind``, and one line in
:data:`Fault` below; everything else (schema, loading, listing, truth) follows from that. What a
fault may change is in :mod:`prism_sim.faults.target`.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from prism_sim.faults.base import FaultBase
from prism_sim.faults.failed_uplinks import FailedUplinks
from prism_sim.faults.slow_gpu import SlowGpu
from prism_sim.faults.slow_link import SlowLink
from prism_sim.faults.slow_nic import SlowNic
from prism_sim.faults.slow_switch import SlowSwitch

Fault: TypeAlias = Annotated[
    SlowGpu | SlowNic | SlowLink | SlowSwitch | FailedUplinks,
    Field(discriminator="kind"),
]
"""Any fault; ``kind`` says which."""

KINDS: dict[str, type[FaultBase]] = {
    model.model_fields["kind"].default: model for model in get_args(get_args(Fault)[0])
}
"""The class of each kind of fault, by its name in a scenario."""

__all__ = [
    "KINDS",
    "FailedUplinks",
    "Fault",
    "FaultBase",
    "SlowGpu",
    "SlowLink",
    "SlowNic",
    "SlowSwitch",
]
