"""Addresses that move: a server takes over those of another in mid-run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows
from prism_sim.collector.tuples import FiveTuple
from prism_sim.scenario.base import Closed, Remark, Remarks
from prism_sim.scenario.names import server_index

if TYPE_CHECKING:
    from prism_sim.scenario.models import Scenario


class Move(Closed):
    """One server's addresses, handed to another."""

    address_of: str = Field(description="Server whose addresses are handed over.")
    to: str = Field(description="Server that appears under them, NIC by NIC.")
    at_s: float = Field(ge=0, description="From this time on [s].")


class MovedAddresses(EffectBase):
    """From some time on, a server's records carry addresses that were another's.

    Schedulers give a freed address to the next that asks, while the inventory, and so the
    topology, still has it where it was. The truth keeps each server's own addresses. The former
    owner keeps using its addresses too, if it still has anything to send.
    """

    kind: Literal["moved_addresses"] = "moved_addresses"
    moves: tuple[Move, ...] = Field(min_length=1, description="Who takes over whose, and when.")

    def stage(self, scene: Scene) -> Stage:
        per_server = scene.tuples.router.layout.cluster.nics_per_server
        nics = np.arange(per_server)

        def shown(move: Move, rows: Rows) -> Rows:
            old = (server_index(move.to) or 0) * per_server
            shift = (server_index(move.address_of) or 0) * per_server - old
            src, dst = np.isin(rows["src"], old + nics), np.isin(rows["dst"], old + nics)
            moved = (rows["start_ns"] >= move.at_s * 1e9) & (src | dst)

            def renamed(tup: FiveTuple) -> FiveTuple:
                src, dst = (
                    end + shift * (0 <= end - old < per_server) for end in (tup.src, tup.dst)
                )
                return tup._replace(src=src, dst=dst)

            return scene.renamed(rows, moved, renamed)

        def show(rows: Rows) -> Rows:
            for move in self.moves:
                rows = shown(move, rows)
            return rows

        return show

    def remarks(self, scenario: Scenario) -> Remarks:
        for index, move in enumerate(self.moves):
            for key, name in (("address_of", move.address_of), ("to", move.to)):
                if not scenario.cluster.has_server(name):
                    what = f"there is no server {name!r} in the cluster"
                    yield Remark(("moves", index, key), what, "", (("cluster", "servers"),))
            if move.address_of == move.to:
                yield Remark(("moves", index, "to"), f"{move.to} has its own addresses already")
