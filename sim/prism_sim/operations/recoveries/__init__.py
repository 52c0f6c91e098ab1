"""Policies of recovery, one file a kind; a new kind is a new file and one entry below."""

from __future__ import annotations

from prism_sim.operations.recoveries.base import RecoveryBase
from prism_sim.operations.recoveries.evict_group import EvictGroup
from prism_sim.operations.recoveries.hot_update import HotUpdate
from prism_sim.operations.recoveries.requeue import Requeue
from prism_sim.operations.recoveries.rollback import Rollback
from prism_sim.operations.recoveries.standby import Standby
from prism_sim.registry import Registry, by_literal

RECOVERIES: Registry[type[RecoveryBase]] = Registry(
    "prism_sim.operations.recoveries",
    Requeue,
    HotUpdate,
    Standby,
    EvictGroup,
    Rollback,
    name_of=by_literal,
)
"""Each kind by its name in a study."""
