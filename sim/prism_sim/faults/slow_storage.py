"""Slow storage: saving and reading take longer, and ranks wait at checkpoints."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from prism_sim.faults.base import SLOW_ACCESS, LinkFault
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfServer
from prism_sim.faults.target import LinkNumbers, Target
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class SlowStorage(OfServer, LinkFault):
    """A storage server writes and reads at factor of its rate."""

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS

    kind: Literal["slow_storage"] = "slow_storage"

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        storage = drawing.setting.storage
        if not storage:
            raise ValueError("there is no storage server")
        server = storage[int(drawing.position * len(storage))]
        return super().drawn(drawing) | {"server": server}

    def links(self, target: Target) -> LinkNumbers:
        return target.links.of_server(self.server)

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        if self.server not in setting.storage:
            what = f"{self.server} is no storage server"
            yield Remark(("server",), what, "name one of storage", (("storage",),))
