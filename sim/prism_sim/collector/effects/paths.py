"""Paths that are known only in part."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.cluster.routes import Router
from prism_sim.cluster.topology import topology_of
from prism_sim.cluster.ways import UNKNOWN_HOP
from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import EGRESS, NO_PATH, Rows
from prism_sim.collector.splitting import Splitting
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.setting import Setting
from prism_sim.scenario.words import did_you_mean

Flags = NDArray[np.bool_]


class Paths(EffectBase):
    """Unreported hops, paths that end early, and records without any path.

    A path is assembled from the reports of each switch about a packet (ERSPAN), so a hop without a
    report is missing. Draws are by record.
    """

    after_cutting = True

    kind: Literal["paths"] = "paths"
    hidden: tuple[str, ...] | None = None
    """Switches that report nothing: always ``?``. Left out: none."""
    unknown_hop: float | None = Field(default=None, ge=0, le=1)
    """Probability that a hop is ``?``, independent of other hops: loss of mirrored packets. Left
    out: none; no published figure found."""
    exporter_only: bool = False
    """Only the switch that exports a record is known, and from its interfaces whether it is the
    first or the last of the path; the rest is one ``?``. NetFlow, IPFIX and sFlow report no more
    than that. Default: paths are assembled hop by hop."""
    truncated: float | None = Field(default=None, ge=0, le=1)
    """Probability that a path ends early, after a number of hops drawn evenly from 1 to one less
    than there are. Left out: none; no published figure found."""
    split: Literal["all", "one"] | None = None
    """Messages that routing splits over several paths. all: a record for each path, as of switches
    that tell records of different output interfaces apart. one: the path of one packet, with all
    bytes. Left out: ``?`` between the leaves."""
    missing: float | None = Field(default=None, ge=0, le=1)
    """Probability that a record has no path (null). Left out: 1, since records of NetFlow, IPFIX
    and sFlow have no field for a path; none if any other field is given, since paths are then
    reported."""

    @property
    def missing_share(self) -> float:
        """Probability that a record has no path, with the default filled in."""
        if self.missing is not None:
            return self.missing
        reported = (self.hidden, self.unknown_hop, self.truncated, self.split)
        return 1.0 if reported == (None,) * 4 and not self.exporter_only else 0.0

    def records_a_message(self, cluster: Cluster) -> float:
        if self.split != "all" or not cluster.fabric.routing.splits or cluster.leaves == 1:
            return 1.0
        topology = topology_of(cluster)
        across = topology.cores_per_plane * topology.spines_per_pod if topology.core_uplinks else 1
        return float(min(cluster.uplinks, topology.spines_per_pod) * max(1, across))

    def stage(self, scene: Scene) -> Stage:
        router = scene.tuples.router
        known_by_exporter, reported = _ends(router), self._reports(router)
        splitting = Splitting(router)

        def report(rows: Rows) -> Rows:
            if self.split == "all":
                rows = splitting.every(rows)
            elif self.split == "one":
                rows = splitting.one(rows, scene.uniform("path of a packet", rows))
            has = np.flatnonzero(rows["path"] != NO_PATH)
            if self.exporter_only:
                rows["path"][has] = _each(known_by_exporter, rows["path"][has], rows["point"][has])
            hops = np.array([text.count("|") + 1 for text in router.paths], np.int64)
            kept, unknown = self._drawn(scene, rows[has], hops[rows["path"][has]])
            rows["path"][has] = _each(reported, rows["path"][has], kept, *unknown.T)
            rows["path"][scene.uniform("path missing", rows) < self.missing_share] = NO_PATH
            return rows

        return report

    def _reports(self, router: Router) -> Callable[..., int]:
        """Finds the reported part of a path: its first ``kept`` hops, some of them ``?``."""
        hidden = self.hidden or ()

        @cache
        def reported(path: int, kept: int, *unknown: int) -> int:
            hops = router.paths[path].split("|")[:kept]
            silent = [bad or hop in hidden for hop, bad in zip(hops, unknown, strict=False)]
            known = [UNKNOWN_HOP if bad else hop for hop, bad in zip(hops, silent, strict=True)]
            return router.names.note("|".join(known))

        return reported

    def _drawn(
        self, scene: Scene, rows: Rows, hops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Flags]:
        """Hops that each row keeps, and flags of unknown ones, shape (rows, most hops)."""
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


def _ends(router: Router) -> Callable[..., int]:
    """Finds the part of a path that the exporter knows: its own place, first or last."""

    @cache
    def known(path: int, point: int) -> int:
        hops = router.paths[path].split("|")
        if len(hops) == 1:
            return path
        ends = [UNKNOWN_HOP, hops[-1]] if point == EGRESS else [hops[0], UNKNOWN_HOP]
        return router.names.note("|".join(ends))

    return known


def _each(find: Callable[..., int], *columns: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """``find`` applied to every row of ``columns``."""
    found, where = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    answer = np.array([find(*case) for case in found.tolist()], np.int32)
    return answer[where.ravel()]
