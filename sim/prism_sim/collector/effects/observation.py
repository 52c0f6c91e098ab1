"""The observation point: the leaf where traffic enters, or the one where it leaves."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import EGRESS, Rows


class Observation(EffectBase):
    """Observe traffic at the source's leaf, the destination's, or both.

    With both, every transfer leaves two records, even if one leaf serves both ends: one when it
    enters, one when it leaves. The later one differs by the path's latency only, unless clocks,
    losses or sampling change it. A record does not contain its observation point.
    """

    kind: Literal["observation"] = "observation"
    point: Literal["ingress", "egress", "both"] = Field(
        default="egress",
        description="Practice: ingress on every port; so does a collector without this effect. "
        "Default of the effect: egress, since ingress changes nothing; observed later, by the "
        "latency of the path. both: where ports monitor input and output (Cisco Flexible NetFlow "
        "supports either) and duplicates are not removed. The metadata of the table name it as "
        "observation_point.",
    )

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
