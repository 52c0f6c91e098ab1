"""Effects on the addresses in records."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.cluster.ways import DYNAMIC_PORTS
from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows
from prism_sim.collector.tuples import ICMP, FiveTuple
from prism_sim.scenario.base import Closed, Remark, Remarks
from prism_sim.scenario.names import server_index
from prism_sim.scenario.setting import Setting


# Network address translation (NAT): several servers share one address.
class Nat(EffectBase):
    """Traffic of some servers with all others appears under one address.

    Address and port translation follows RFC 3022: each port of a server has a port of the common
    address, the same towards all peers (RFC 4787, endpoint-independent mapping), in both
    directions. Switches export what they observe behind the translator; paths do not change. The
    truth keeps the servers' own addresses, so pairs that translation hides count as missed.
    """

    kind: Literal["nat"] = "nat"
    servers: tuple[str, ...] = Field(
        min_length=1, description="Servers behind the translator. Practice: containers and virtual "
        "machines behind their host (Docker's default bridge).",
    )  # fmt: skip
    address: str | None = None
    """The common address. Left out: that of the first server's first NIC. Records of an address
    that the topology does not contain are set aside."""

    def stage(self, scene: Scene) -> Stage:
        layout = scene.tuples.router.layout
        per_server = layout.cluster.ports_per_server
        first = [(server_index(name) or 0) * per_server for name in self.servers]
        hidden = np.add.outer(first, np.arange(per_server)).ravel()
        common = first[0] if self.address is None else scene.tuples.name(self.address)
        ports = Ports(scene)

        def translated(tup: FiveTuple) -> FiveTuple:
            if tup.src in hidden:
                port = ports.of(tup.src, tup.src_port, tup.protocol)
                return tup._replace(src=common, src_port=port)
            port = ports.of(tup.dst, tup.dst_port, tup.protocol)
            return tup._replace(dst=common, dst_port=port)

        def translate(rows: Rows) -> Rows:
            crossing = np.isin(rows["src"], hidden) != np.isin(rows["dst"], hidden)
            return scene.renamed(rows, crossing, translated)

        return translate

    def remarks(self, setting: Setting) -> Remarks:
        for index, name in enumerate(self.servers):
            if not setting.cluster.has_server(name):
                what = f"there is no server {name!r} in the cluster"
                yield Remark(("servers", index), what, "", (("cluster", "servers"),))


class Ports:
    """Ports of the common address, drawn by the port that they replace, all different."""

    def __init__(self, scene: Scene) -> None:
        self._tuples = scene.tuples
        self._known: dict[tuple[int, int, int], int] = {}
        self._taken: set[tuple[int, int]] = set()

    def of(self, nic: int, port: int, protocol: int) -> int:
        """The port of the common address for ``port`` of ``nic``; ICMP has none to replace."""
        if protocol == ICMP:
            return port
        key = (nic, port, protocol)
        if key not in self._known:
            low, high = DYNAMIC_PORTS
            free = self._tuples.port("nat", *key)
            while (free, protocol) in self._taken:
                free = low + (free + 1 - low) % (high - low)
            self._taken.add((free, protocol))
            self._known[key] = free
        return self._known[key]


# Moved addresses: a server takes over those of another during the run.

NEVER_NS = 2**62


class Move(Closed):
    """One server's addresses, given to another."""

    address_of: str = Field(description="Server whose addresses are given away.")
    to: str = Field(description="Server that appears under them, NIC by NIC.")
    at_s: float = Field(ge=0, le=1e8, description="From this time on [s].")


class MovedAddresses(EffectBase):
    """From some time on, a server's records carry addresses that were another's.

    Schedulers give a freed address to the next job, while the inventory, and so the topology, still
    lists it at its old server. The truth keeps each server's own addresses. The former owner also
    keeps using its addresses for anything it still sends, unless it receives others itself. Moves
    act in the order of their times; moves of one time act at once, so two servers may swap. If
    several moves concern one server, the latest applies.
    """

    kind: Literal["moved_addresses"] = "moved_addresses"
    moves: tuple[Move, ...] = Field(min_length=1, description="The moves, in any order.")

    def stage(self, scene: Scene) -> Stage:
        per_server = scene.tuples.router.layout.cluster.ports_per_server
        in_time = sorted(self.moves, key=lambda move: move.at_s)
        begins_ns = [round(move.at_s * 1e9) for move in in_time]
        moves = list(zip(in_time, begins_ns, [*begins_ns[1:], NEVER_NS], strict=True))

        def show(rows: Rows) -> Rows:
            new_address = np.arange(len(scene.tuples.names))  # every server has its own addresses
            start_ns = rows["start_ns"]
            for move, begin_ns, end_ns in moves:
                own, shown = (
                    (server_index(name) or 0) * per_server for name in (move.to, move.address_of)
                )
                new_address[own : own + per_server] = shown + np.arange(per_server)
                now = (start_ns >= begin_ns) & (start_ns < end_ns)
                rows = _renamed(scene, rows, now, new_address)
            return rows

        return show

    def remarks(self, setting: Setting) -> Remarks:
        for index, move in enumerate(self.moves):
            for key, name in (("address_of", move.address_of), ("to", move.to)):
                if not setting.cluster.has_server(name):
                    what = f"there is no server {name!r} in the cluster"
                    yield Remark(("moves", index, key), what, "", (("cluster", "servers"),))
            if move.address_of == move.to:
                yield Remark(("moves", index, "to"), f"{move.to} has its own addresses already")


def _renamed(
    scene: Scene, rows: Rows, now: NDArray[np.bool_], new_address: NDArray[np.int64]
) -> Rows:
    """``rows`` with the addresses of ``new_address`` in the rows that ``now`` selects."""
    moved = now & (
        (new_address[rows["src"]] != rows["src"]) | (new_address[rows["dst"]] != rows["dst"])
    )

    def change(tup: FiveTuple) -> FiveTuple:
        return tup._replace(src=int(new_address[tup.src]), dst=int(new_address[tup.dst]))

    return scene.renamed(rows, moved, change)
