"""Disturbances of the records and their levels. A level has a source or is our stated choice.

The table of windows has a column for each entry of :data:`COLLECTORS`, which are collectors as an
operator might run them. Each curve has one :class:`Disturbance` alone, over its whole range. No
level is tuned.

Sources
-------
- Frames lost for bit errors: 200 and 400 Gbit/s Ethernet is built for one bit in 1e13 (IEEE
  802.3bs, objectives), so a packet of 4.1e3 bytes is lost with 3.3e-9. RoCE fabrics lose almost
  none by congestion. Packets lost in healthy data centres in general: 1e-5 to 1e-4 (Guo et al.,
  Pingmesh, SIGCOMM'15). A NIC also repeats the packets that it sent after the lost one, up to a
  window of about 100 packets.
- Records lost between exporter and collector: 1e-3, a good export over UDP.
- Flow caches: 15 s of silence and 30 min of age are the defaults of Cisco IOS (NetFlow
  configuration guide); collectors for diagnosis use much less. Our choice: 15 ms and 60 s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BIT_ERRORS = 3.3e-9
WINDOW = 100  # packets retransmitted for each lost packet


def _losing(probability: float) -> dict[str, Any]:
    """Effect that loses each record with the same probability."""
    return {"kind": "loss", "probability": probability}


def _retransmitting(probability: float) -> list[dict[str, Any]]:
    lost = {"kind": "retransmissions", "probability": probability, "packets_a_loss": WINDOW}
    return [{"kind": "headers"}, lost]


UNDISTURBED = "undisturbed"
MESSAGES = "messages known, 1 record in 1,000 lost"
CACHE = "flow cache: messages unknown, 15 ms idle gap"

COLLECTORS: dict[str, dict[str, Any]] = {
    UNDISTURBED: {},
    MESSAGES: {"effects": [*_retransmitting(BIT_ERRORS), _losing(1e-3)]},
    CACHE: {
        "message_boundary": False,
        "idle_gap_us": 15_000,
        "active_timeout_s": 60,
        "effects": [*_retransmitting(BIT_ERRORS), _losing(1e-3)],
    },
}
"""Collectors by name: fields of a scenario's ``collector``."""


class Disturbance:
    """One disturbance.

    Attributes
    ----------
    title, unit : of the curve's panel, and of its x axis.
    levels : from weak to strong, in ``unit``.
    log : whether levels are drawn at equal distances.
    """

    def __init__(self, title: str, unit: str, levels: list[float], log: bool = True) -> None:
        self.title, self.unit, self.levels, self.log = title, unit, levels, log

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        """The collector at ``level``, for records of ``span`` [s] in a cluster of ``leaves``."""
        raise NotImplementedError


class RecordLoss(Disturbance):
    """Each record is lost with the same probability."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        return {"effects": [_losing(level)]}


class LossBursts(Disturbance):
    """The export of each leaf fails for a second at a time; ``level`` is the share of the time."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        good_s = (1 - level) / level
        bad = {"burst_probability": 1.0, "mean_good_s": good_s, "mean_bad_s": 1.0}
        return {"effects": [{"kind": "loss", **bad}]}


class Outage(Disturbance):
    """The collector is down in the middle of the window; ``level`` is the share of the window."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        middle, half = (span[0] + span[1]) / 2, level * (span[1] - span[0]) / 2
        down = {"from_s": middle - half, "to_s": middle + half}
        return {"effects": [{"kind": "outages", "windows": [down]}]}


class SilentLeaves(Disturbance):
    """Some leaves export nothing; ``level`` is their share."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        count = max(1, round(level * len(leaves)))
        silent = np.random.default_rng(seed).permutation(len(leaves))[:count]
        names = [leaves[at] for at in sorted(silent.tolist())]
        return {"effects": [{"kind": "silent_switches", "switches": names}]}


class Retransmission(Disturbance):
    """Packets are lost behind the exporter; they and the next packets are retransmitted."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        return {"effects": _retransmitting(level)}


class Merging(Disturbance):
    """Messages are unknown: a record ends after a silence of ``level`` ms, or after a minute."""

    def collector(self, level: float, span: tuple[float, float], leaves: list[str], seed: int
                  ) -> dict[str, Any]:  # fmt: skip
        gap_us = 1000 * level
        return {"message_boundary": False, "idle_gap_us": gap_us, "active_timeout_s": 60}


DISTURBANCES: dict[str, Disturbance] = {
    "loss": RecordLoss("Records lost one by one", "probability", [1e-3, 1e-2, 0.03, 0.1, 0.3, 0.6]),
    "bursts": LossBursts(
        "Exports that fail for 1 s at a time", "share of the time", [1e-3, 1e-2, 0.03, 0.1, 0.3]
    ),
    "outage": Outage("Collector down", "share of the window", [0.1, 0.3, 0.5, 0.7, 0.9], log=False),
    "silent": SilentLeaves(
        "Leaves that export nothing", "share of leaves", [0.0625, 0.125, 0.25, 0.5]
    ),
    "retransmission": Retransmission(
        "Packets retransmitted", "probability a packet", [3.3e-9, 1e-7, 1e-6, 1e-5, 1e-4]
    ),
    "merging": Merging("Records cut only by silence", "idle gap [ms]", [1, 5, 15, 50, 200, 1000]),
}  # fmt: skip
"""Disturbances by their name in results."""
