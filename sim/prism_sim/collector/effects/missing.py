"""Effects that leave records out."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.cluster.topology import topology_of
from prism_sim.collector.effects.base import EffectBase, Scene, Stage, Window
from prism_sim.collector.rows import AMOUNTS, Rows
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting
from prism_sim.scenario.words import did_you_mean


# Switches that export nothing.
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


# Packet sampling: one packet in N is observed, and counts for N.
class Sampling(EffectBase):
    """Each packet is sampled with probability 1/N; amounts are scaled up by N.

    A transfer of P packets has a binomial number of samples; one without samples leaves no record.
    The first and last samples are the minimum and maximum of that many uniform positions.
    """

    kind: Literal["sampling"] = "sampling"
    one_in: int = Field(default=4096, ge=1, le=1_000_000_000)
    """N. Default: 4,096, that of sFlow at Aruba. Others: 2,000 (Juniper EX), one in a million bit/s
    of the port (NVIDIA Cumulus: 400,000 at 400 Gbit/s)."""
    mtu_payload_bytes: int = Field(default=4096, ge=1, le=1_000_000_000)
    """Payload of a full packet [bytes], unless the effect headers is listed. Default: as for
    headers, RoCE v2's largest MTU."""

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


# Loss of records before the collector: single ones, and bursts.

CYCLES = 64
"""Mean cycles of good and bad periods that are drawn at a time, one stream each."""
UDP_LOSS = 1.4e-3
"""Share of export packets lost over UDP: 22 sequence failures in 15,292 (nfdump, issue 335)."""


class Loss(EffectBase):
    """Loss with two states, good and bad, of each exporter independently.

    Gilbert's model in continuous time: sojourn times are exponential, so the loss of a record does
    not depend on the number of other records. Reference: Gilbert, Capacity of a
    burst-noise channel, 1960; Elliott, 1963.
    """

    after_cutting = True

    kind: Literal["loss"] = "loss"
    probability: float | None = Field(default=None, ge=0, le=1)
    """Loss of a record in the good state. Left out: 1.4e-3, as over UDP at one exporter of a site
    whose other had 2e-4 (packets; nfdump, issue 335); none where burst_probability is given, so
    that a scenario can have bursts only."""
    burst_probability: float | None = Field(default=None, ge=0, le=1)
    """Loss of a record in the bad state. Left out: as in the good state."""
    mean_good_s: float = Field(default=60.0, ge=1e-9, le=1e9)
    """Mean length of good periods [s]. Assumed: no published figure found."""
    mean_bad_s: float = Field(default=1.0, ge=1e-9, le=1e9)
    """Mean length of bad periods [s]. Assumed: no published figure found."""

    @property
    def good_probability(self) -> float:
        """Loss of a record in the good state, with the default filled in."""
        if self.probability is not None:
            return self.probability
        return UDP_LOSS if self.burst_probability is None else 0.0

    def stage(self, scene: Scene) -> Stage:
        block_ns = CYCLES * (self.mean_good_s + self.mean_bad_s) * 1e9

        @lru_cache(maxsize=256)
        def changes(exporter: int, block: int) -> tuple[bool, NDArray[np.float64]]:
            """Whether a block of time starts in the bad state, and the times of changes [ns]."""
            stream = scene.draws.stream("loss bursts", exporter, block)
            bad = bool(stream.random() < self.mean_bad_s / (self.mean_good_s + self.mean_bad_s))
            means = np.tile([self.mean_good_s, self.mean_bad_s], 4 * CYCLES)
            means = means[int(bad) : len(means) - int(bad)]
            return bad, block * block_ns + np.cumsum(stream.exponential(means)) * 1e9

        def is_bad(rows: Rows) -> NDArray[np.bool_]:
            bad = np.zeros(len(rows), bool)
            exporters = int(rows["exporter"].max(initial=0)) + 2  # they count from -1
            where = (rows["end_ns"] // block_ns).astype(np.int64) * exporters + rows["exporter"] + 1
            found, at = np.unique(where, return_inverse=True)
            for number, (block, exporter) in enumerate(
                divmod(n, exporters) for n in found.tolist()
            ):
                exporter -= 1
                these = at == number
                first, times = changes(exporter, block)
                bad[these] = (np.searchsorted(times, rows["end_ns"][these]) + first) % 2 == 1
            return bad

        def lose(rows: Rows) -> Rows:
            chance = np.full(len(rows), self.good_probability)
            if self.burst_probability not in (None, self.good_probability):
                chance[is_bad(rows)] = self.burst_probability
            return rows[scene.uniform("record lost", rows) >= chance]

        return lose


# Outages of the collector.
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
