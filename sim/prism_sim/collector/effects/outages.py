"""Outages of the collector."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage, Window
from prism_sim.collector.rows import Rows
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class Outages(EffectBase):
    """Records exported within a window are lost."""

    after_cutting = True

    kind: Literal["outages"] = "outages"
    windows: tuple[Window, ...] = Field(min_length=1, description="Times when it is down.")

    def stage(self, scene: Scene) -> Stage:
        def survive(rows: Rows) -> Rows:
            up = np.ones(len(rows), bool)
            for window in self.windows:
                since, until = window.from_s * 1e9, window.to_s * 1e9
                up &= (rows["arrival_ns"] < since) | (rows["arrival_ns"] >= until)
            return rows[up]

        return survive

    def remarks(self, setting: Setting) -> Remarks:
        for index, window in enumerate(self.windows):
            if window.to_s <= window.from_s:
                what = f"the window from {window.from_s} s to {window.to_s} s is empty"
                yield Remark(("windows", index), what, "to_s must lie after from_s")
