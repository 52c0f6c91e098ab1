"""Switches that export nothing."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.cluster.topology import topology_of
from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting
from prism_sim.scenario.words import did_you_mean


class SilentSwitches(EffectBase):
    """Traffic that only these leaves observe leaves no record."""

    kind: Literal["silent_switches"] = "silent_switches"
    switches: tuple[str, ...] = Field(min_length=1, description="Names of the leaves.")

    def stage(self, scene: Scene) -> Stage:
        leaves = scene.tuples.router.layout.leaves
        silent = [leaves.index(name) for name in self.switches]

        def visible(rows: Rows) -> Rows:
            return rows[~np.isin(rows["exporter"], silent)]

        return visible

    def remarks(self, setting: Setting) -> Remarks:
        leaves = topology_of(setting.cluster).leaves.names
        for index, name in enumerate(self.switches):
            if name not in leaves:
                what = f"there is no leaf {name!r} that could export"
                yield Remark(("switches", index), what, did_you_mean(name, leaves))
