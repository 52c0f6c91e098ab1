"""Retransmissions: packets that are lost after the exporter, and sent again."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.keyed import Words
from prism_sim.collector.rows import AMOUNTS, EGRESS, INGRESS, Rows


class Retransmissions(EffectBase):
    """Each packet is lost with the same probability; after a loss some packets are sent again.

    Losses happen inside the network. The source's leaf therefore counts every copy, the
    destination's leaf only the packets that arrived. At both, a record lasts longer by the time
    that the copies take at the record's own rate. A record of P packets has a binomial number of
    losses.
    """

    needs_packets = True

    kind: Literal["retransmissions"] = "retransmissions"
    probability: float = Field(default=1e-4, ge=0, lt=1)
    """Loss of a packet. Default: upper end of the 1e-5 to 1e-4 of healthy data centres (Guo et al.,
    Pingmesh, SIGCOMM'15)."""
    packets_a_loss: int = Field(default=1, ge=1, le=1_000_000_000)
    """Packets sent again for each that is lost. Default: 1, selective acknowledgements (RFC 2018).
    RoCE NICs go back to the loss and repeat what followed (Mittal et al., SIGCOMM'18): up to a
    window, 100 at 400 Gbit/s and 8 us."""

    def stage(self, scene: Scene) -> Stage:
        from scipy.stats import binom

        def repeat(rows: Rows) -> Rows:
            at = np.flatnonzero((rows["payload"] > 0) & (rows["packets"] > 0))
            packets = rows["packets"][at]
            chance = scene.chance("packets lost", _transfers(scene, rows[at]))
            losses = np.asarray(binom.ppf(chance, packets, self.probability), float)
            share = losses * self.packets_a_loss / packets
            length = rows["end_ns"][at] - rows["start_ns"][at]
            for name in ("end_ns", "arrival_ns"):
                rows[name][at] += np.rint(share * length).astype(np.int64)
            counted = rows["point"][at] == INGRESS
            for name in AMOUNTS:
                more = np.rint(share * rows[name][at] * counted)
                rows[name][at] += more.astype(np.int64)
            return rows

        return repeat


def _transfers(scene: Scene, rows: Rows) -> Words:
    """Keys of a transfer's draws, the same at every observation point."""
    source = rows.copy()
    latency_ns = scene.tuples.column("latency_ns")[rows["tuple"]]
    source["start_ns"] -= np.where(rows["point"] == EGRESS, latency_ns, 0)
    source["point"] = INGRESS
    return scene.identity(source)
