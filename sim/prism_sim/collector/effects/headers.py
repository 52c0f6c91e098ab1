"""Packets and their headers: bytes as a switch counts them, and the switch that observes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import EGRESS, Rows
from prism_sim.scenario.library import Transport

MTU_BYTES: Mapping[Transport, int] = {"roce": 4096, "tcp": 1448}
"""Payload of a full packet [bytes]: RoCE v2's largest MTU; TCP over Ethernet."""
HEADER_BYTES: Mapping[Transport, int] = {"roce": 44, "tcp": 52}
"""IP length of a packet without payload [bytes]: Annex A17; TCP with timestamps (RFC 7323)."""


class Headers(EffectBase):
    """Count packets, and count ``bytes`` as IP length: payload and one header a packet.

    Fields left out depend on the transport of each job.
    """

    counts = True

    kind: Literal["headers"] = "headers"
    mtu_payload_bytes: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Payload of a full packet [bytes]. Left out: 4096 for RoCE v2, its largest MTU; 1448 for TCP
    over Ethernet."""
    header_bytes: int | None = Field(default=None, ge=0, le=1_000_000)
    """IP length of a packet without payload [bytes]. Left out: 44 for RoCE v2, 20 IP + 8 UDP + 12
    BTH + 4 ICRC (Annex A17); 52 for TCP with timestamps (RFC 7323). Captured on a host before
    segmentation, as in the real captures: 5, one header for 10 or 11."""
    transport: Transport | None = None
    """Transport of jobs that give none themselves, and of traffic of no job. Left out: the default
    of each job (TCP with a socket library, otherwise RoCE v2), and RoCE v2 for other traffic. Over
    TCP both directions share one connection's ports."""

    def stage(self, scene: Scene) -> Stage:
        def count(rows: Rows) -> Rows:
            over_tcp = scene.tuples.over_tcp(rows["tuple"])
            mtu_bytes = _by_transport(over_tcp, self.mtu_payload_bytes, MTU_BYTES)
            header_bytes = _by_transport(over_tcp, self.header_bytes, HEADER_BYTES)
            rows["packets"] = -(-rows["payload"] // mtu_bytes)
            rows["bytes"] = rows["payload"] + header_bytes * rows["packets"]
            return rows

        return count


def _by_transport(
    over_tcp: NDArray[np.bool_], given: int | None, usual: Mapping[Transport, int]
) -> NDArray[np.int64]:
    """The ``given`` value, or the ``usual`` one of each row's transport."""
    tcp, roce = (usual[name] if given is None else given for name in ("tcp", "roce"))
    return np.where(over_tcp, tcp, roce)


# The observation point: the leaf where traffic enters, or the one where it leaves.


class Observation(EffectBase):
    """Observe traffic at the source's leaf, the destination's, or both.

    With both, every transfer leaves two records, even if one leaf serves both ends: one when it
    enters, one when it leaves. The later one differs by the path's latency only, unless clocks,
    losses or sampling change it. A record does not contain its observation point.
    """

    kind: Literal["observation"] = "observation"
    point: Literal["ingress", "egress", "both"] = "egress"
    """Practice: ingress on every port; so does a collector without this effect. Default of the
    effect: egress, since ingress changes nothing; observed later, by the latency of the path. both:
    where ports monitor input and output (Cisco Flexible NetFlow supports either) and duplicates are
    not removed. The metadata of the table name it as observation_point."""

    def stage(self, scene: Scene) -> Stage:
        def at_egress(rows: Rows) -> Rows:
            tuples = scene.tuples
            rows = rows.copy()
            latency_ns = tuples.column("latency_ns")[rows["tuple"]]
            for name in ("start_ns", "end_ns", "arrival_ns"):
                rows[name] += latency_ns
            rows["exporter"] = tuples.column("leaf_out")[rows["tuple"]]
            rows["point"] = EGRESS
            rows["id"] = scene.identity(rows)
            return rows

        views: dict[str, Stage] = {
            "ingress": lambda rows: rows,
            "egress": at_egress,
            "both": lambda rows: np.concatenate([rows, at_egress(rows)]),
        }
        return views[self.point]

    def notes(self) -> dict[str, str]:
        return {"observation_point": self.point}
