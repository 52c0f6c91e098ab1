"""What disturbs the records, and how much: levels as published or as stated, never as tuned.

A *platform* is a collector as an operator might run it, with every level from a source; the
table of windows is made with each. A *cause* is one disturbance alone, over its whole range,
for the curves.

Sources
-------
- Frames lost for bit errors: 200 and 400 Gbit/s Ethernet is built for one bit in 1e13 (IEEE
  802.3bs, objectives), so 4.1e3 bytes are hit with 3.3e-9. RoCE fabrics lose next to none by
  congestion. Packets lost in healthy data centres at large: 1e-5 to 1e-4 (Guo et al., Pingmesh,
  SIGCOMM'15). A NIC repeats what it has sent since, up to a window of 100 packets or so.
- Records lost on their way: 1e-3, what the scenario language calls a good export over UDP.
- Flow caches: 15 s of silence and 30 min of age are the defaults of Cisco IOS (NetFlow
  configuration guide); collectors for diagnosis set far less. Stated here: 15 ms and 60 s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BIT_ERRORS = 3.3e-9
WINDOW = 100  # packets sent again for each that is lost


def _losing(probability: float) -> dict[str, Any]:
    """Records lost one by one, with the same probability at all times."""
    return {"kind": "loss", "probability": probability}


def _retransmitting(probability: float) -> list[dict[str, Any]]:
    lost = {"kind": "retransmissions", "probability": probability, "packets_a_loss": WINDOW}
    return [{"kind": "headers"}, lost]


UNDISTURBED = "undisturbed"
MESSAGES = "messages seen, 1 record in 1,000 lost"
CACHE = "flow cache: no messages seen, 15 ms idle gap"

PLATFORMS: dict[str, dict[str, Any]] = {
    UNDISTURBED: {},
    MESSAGES: {"effects": [*_retransmitting(BIT_ERRORS), _losing(1e-3)]},
    CACHE: {
        "message_boundary": False,
        "idle_gap_us": 15_000,
        "active_timeout_s": 60,
        "effects": [*_retransmitting(BIT_ERRORS), _losing(1e-3)],
    },
}
"""Collectors by what the table calls them; fields of a scenario's ``collector``."""


class Cause:
    """One disturbance.

    Attributes
    ----------
    title, unit : what the curve's panel and its x axis are called.
    levels : from weak to strong, in ``unit``.
    log : whether levels stand at equal distances, being about equal factors.
    """

    def __init__(self, title: str, unit: str, levels: list[float], log: bool = True) -> None:
        self.title, self.unit, self.levels, self.log = title, unit, levels, log

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        """The collector at ``level``, for records of ``span`` [s] in a cluster of ``leaves``."""
        raise NotImplementedError


class Loss(Cause):
    """Records lost one by one."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        return {"effects": [_losing(level)]}


class Bursts(Cause):
    """Each leaf's export fails altogether for a second at a time, ``level`` of the time."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        good_s = (1 - level) / level
        bad = {"burst_probability": 1.0, "mean_good_s": good_s, "mean_bad_s": 1.0}
        return {"effects": [{"kind": "loss", **bad}]}


class Outage(Cause):
    """The collector is down for ``level`` of the window, in its middle."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        middle, half = (span[0] + span[1]) / 2, level * (span[1] - span[0]) / 2
        down = {"from_s": middle - half, "to_s": middle + half}
        return {"effects": [{"kind": "outages", "windows": [down]}]}


class Silent(Cause):
    """``level`` of the leaves export nothing."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        count = max(1, round(level * len(leaves)))
        mute = np.random.default_rng(seed).permutation(len(leaves))[:count]
        names = [leaves[at] for at in sorted(mute.tolist())]
        return {"effects": [{"kind": "silent_switches", "switches": names}]}


class Retransmission(Cause):
    """Packets lost behind the exporter, and what followed them sent again."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        return {"effects": _retransmitting(level)}


class Merging(Cause):
    """No message is known: records end by silence of ``level`` ms alone, or after a minute."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        gap_us = 1000 * level
        return {"message_boundary": False, "idle_gap_us": gap_us, "active_timeout_s": 60}


CAUSES: dict[str, Cause] = {
    "loss": Loss("Records lost singly", "probability", [1e-3, 1e-2, 0.03, 0.1, 0.3, 0.6]),
    "bursts": Bursts(
        "Exports that fail for 1 s at a time", "share of the time", [1e-3, 1e-2, 0.03, 0.1, 0.3]
    ),
    "outage": Outage("Collector down", "share of the window", [0.1, 0.3, 0.5, 0.7, 0.9], log=False),
    "silent": Silent("Leaves that export nothing", "share of leaves", [0.0625, 0.125, 0.25, 0.5]),
    "retransmission": Retransmission(
        "Packets retransmitted", "probability a packet", [3.3e-9, 1e-7, 1e-6, 1e-5, 1e-4]
    ),
    "merging": Merging("Records cut by silence alone", "idle gap [ms]", [1, 5, 15, 50, 200, 1000]),
}  # fmt: skip
"""Every cause by its name in results."""
