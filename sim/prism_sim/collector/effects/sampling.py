"""Packet sampling: one packet in N is observed, and counts for N."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import AMOUNTS, Rows


class Sampling(EffectBase):
    """Each packet is sampled with probability 1/N; amounts are scaled up by N.

    A transfer of P packets has a binomial number of samples; one without samples leaves no record.
    The first and last samples are the minimum and maximum of that many uniform positions.
    """

    kind: Literal["sampling"] = "sampling"
    one_in: int = Field(
        default=4096,
        ge=1,
        le=1_000_000_000,
        description="N. Default: 4,096, that of sFlow at Aruba. Others: 2,000 (Juniper EX), "
        "one in a million bit/s of the port (NVIDIA Cumulus: 400,000 at 400 Gbit/s).",
    )
    mtu_payload_bytes: int = Field(
        default=4096,
        ge=1,
        le=1_000_000_000,
        description="Payload of a full packet [bytes], unless the effect headers is listed. "
        "Default: as for headers, RoCE v2's largest MTU.",
    )

    def stage(self, scene: Scene) -> Stage:
        from scipy.stats import binom

        def sample(rows: Rows) -> Rows:
            counted = -(-rows["bytes"] // self.mtu_payload_bytes)
            packets = np.where(rows["packets"] > 0, rows["packets"], counted)
            drawn = np.asarray(
                binom.ppf(scene.uniform("sampled", rows), packets, 1 / self.one_in), float
            )
            hit = drawn > 0
            rows, packets, drawn = rows[hit], packets[hit], drawn[hit].astype(np.int64)
            first = 1 - (1 - scene.uniform("first sampled", rows)) ** (1 / drawn)
            rest = scene.uniform("last sampled", rows) ** (1 / np.maximum(drawn - 1, 1))
            last = np.where(drawn > 1, first + (1 - first) * rest, first)
            start, length = rows["start_ns"].copy(), rows["end_ns"] - rows["start_ns"]
            rows["start_ns"] = start + np.rint(first * length).astype(np.int64)
            rows["end_ns"] = start + np.rint(last * length).astype(np.int64)
            rows["arrival_ns"] = rows["end_ns"]
            for name in AMOUNTS:
                rows[name] = np.rint(rows[name] / packets * drawn * self.one_in)
            return rows

        return sample

    def notes(self) -> dict[str, str]:
        return {"sampling": str(self.one_in)}
