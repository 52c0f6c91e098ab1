"""Paths of which a record says less than the whole."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.cluster.topology import topology_of
from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import NO_PATH, Rows
from prism_sim.collector.tuples import UNKNOWN_HOP
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting
from prism_sim.scenario.words import did_you_mean

Flags = NDArray[np.bool_]


class Paths(EffectBase):
    """Hops that nobody reported, paths that end early, and records without any path.

    Paths are put together from what each switch reports of a packet (ERSPAN), so what one does
    not report is missing. Draws are by record.
    """

    after_cutting = True

    kind: Literal["paths"] = "paths"
    hidden: tuple[str, ...] | None = Field(
        default=None, description="Switches that report nothing: always ``?``. Left out: none."
    )
    unknown_hop: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Probability that a hop is ``?``, each for itself: what is lost of mirrored "
        "packets. Left out: none; no published figure found.",
    )
    truncated: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Probability that a path ends early, after a number of hops drawn evenly from "
        "1 to one less than there are. Left out: none; no published figure found.",
    )
    missing: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Probability that a record has no path (null). Left out: 1, since records of "
        "NetFlow, IPFIX and sFlow name an exporter and no path; none where any other field is "
        "given, as paths are then reported.",
    )

    @property
    def missing_share(self) -> float:
        """Probability that a record has no path, also where the scenario leaves it out."""
        if self.missing is not None:
            return self.missing
        reported = (self.hidden, self.unknown_hop, self.truncated)
        return 1.0 if reported == (None, None, None) else 0.0

    def stage(self, scene: Scene) -> Stage:
        router, hidden = scene.tuples.router, self.hidden or ()
        texts: dict[tuple[int, ...], int] = {}

        def told(path: int, kept: int, *unknown: int) -> int:
            """Number of what is told of ``path``: the first ``kept`` hops, some of them ``?``."""
            key = (path, kept, *unknown)
            if key not in texts:
                hops = router.paths[path].split("|")[:kept]
                mute = [bad or hop in hidden for hop, bad in zip(hops, unknown, strict=False)]
                known = [UNKNOWN_HOP if bad else hop for hop, bad in zip(hops, mute, strict=True)]
                texts[key] = router.note_path("|".join(known))
            return texts[key]

        def tell(rows: Rows) -> Rows:
            has = np.flatnonzero(rows["path"] != NO_PATH)
            hops = np.array([text.count("|") + 1 for text in router.paths], np.int64)
            kept, unknown = self._drawn(scene, rows[has], hops[rows["path"][has]])
            asked = np.column_stack([rows["path"][has], kept, unknown])
            found, where = np.unique(asked, axis=0, return_inverse=True)
            answer = np.array([told(*case) for case in found.tolist()], np.int32)
            rows["path"][has] = answer[where.ravel()] if len(has) else 0
            rows["path"][scene.uniform("path missing", rows) < self.missing_share] = NO_PATH
            return rows

        return tell

    def _drawn(
        self, scene: Scene, rows: Rows, hops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Flags]:
        """Hops that each row keeps, and which of them are unknown, shape (rows, most hops)."""
        cut = scene.uniform("path truncated", rows) < (self.truncated or 0)
        early = 1 + np.floor(scene.uniform("hops kept", rows) * (hops - 1)).astype(np.int64)
        kept = np.where(cut & (hops > 1), early, hops)
        most = int(hops.max()) if len(hops) else 0
        share = self.unknown_hop or 0
        each = [scene.uniform(f"hop {i} unknown", rows) < share for i in range(most)]
        unknown = np.column_stack(each) if each else np.zeros((len(rows), 0), bool)
        return kept, unknown & (np.arange(most) < kept[:, None])

    def remarks(self, setting: Setting) -> Remarks:
        switches = topology_of(setting.cluster).switches
        for index, name in enumerate(self.hidden or ()):
            if name not in switches:
                what = f"there is no switch {name!r} that could be silent"
                yield Remark(("hidden", index), what, did_you_mean(name, switches))
