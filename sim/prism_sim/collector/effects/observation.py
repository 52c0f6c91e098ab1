"""Where records are made: the leaf that traffic enters by, or leaves by."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import EGRESS, Rows


class Observation(EffectBase):
    """See traffic at the source's leaf, the destination's, or both.

    With both, every transfer leaves two records, also where one leaf serves both ends: one as it
    enters, one as it leaves. The later differs by the path's latency only, until clocks, losses
    or sampling make the two differ. A record does not contain at which end it was made.
    """

    kind: Literal["observation"] = "observation"
    point: Literal["ingress", "egress", "both"] = Field(
        default="egress",
        description="Practice: ingress on every port, which is what a collector sees that does "
        "not list this effect. Default of listing it: egress, since ingress would change "
        "nothing; seen later, by the latency of the path. both: where ports monitor input and "
        "output (Cisco Flexible NetFlow takes either) and nobody removes duplicates. The table's "
        "metadata name it as observation_point.",
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
