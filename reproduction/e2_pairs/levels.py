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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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


Span = tuple[float, float]
Collector = Callable[[float, Span, Sequence[str], int], dict[str, Any]]
"""The collector at a level, for records of a span [s], in a cluster of leaves, with a seed."""


class Disturbance(NamedTuple):
    """One disturbance.

    Attributes
    ----------
    title, unit : of the curve's panel, and of its x axis.
    levels : from weak to strong, in ``unit``.
    log : whether levels are drawn at equal distances.
    """

    title: str
    unit: str
    levels: list[float]
    collector: Collector
    log: bool = True


def _losing_bursts(level: float, *_: Any) -> dict[str, Any]:
    good_s = (1 - level) / level
    bad = {"burst_probability": 1.0, "mean_good_s": good_s, "mean_bad_s": 1.0}
    return {"effects": [{"kind": "loss", **bad}]}


def _down(level: float, span: Span, *_: Any) -> dict[str, Any]:
    """The collector is down in the middle of the window."""
    middle, half = (span[0] + span[1]) / 2, level * (span[1] - span[0]) / 2
    down = {"from_s": middle - half, "to_s": middle + half}
    return {"effects": [{"kind": "outages", "windows": [down]}]}


def _silencing(level: float, _: Span, leaves: Sequence[str], seed: int) -> dict[str, Any]:
    count = max(1, round(level * len(leaves)))
    silent = np.random.default_rng(seed).permutation(len(leaves))[:count]
    names = [leaves[at] for at in sorted(silent.tolist())]
    return {"effects": [{"kind": "silent_switches", "switches": names}]}


def _merging(level: float, *_: Any) -> dict[str, Any]:
    """Messages are unknown: a record ends after a silence of ``level`` ms, or after a minute."""
    return {"message_boundary": False, "idle_gap_us": 1000 * level, "active_timeout_s": 60}


DISTURBANCES: dict[str, Disturbance] = {
    "loss": Disturbance(
        "Records lost one by one", "probability", [1e-3, 1e-2, 0.03, 0.1, 0.3, 0.6],
        lambda level, *_: {"effects": [_losing(level)]},
    ),
    "bursts": Disturbance(
        "Exports that fail for 1 s at a time", "share of the time", [1e-3, 1e-2, 0.03, 0.1, 0.3],
        _losing_bursts,
    ),
    "outage": Disturbance(
        "Collector down", "share of the window", [0.1, 0.3, 0.5, 0.7, 0.9], _down, log=False
    ),
    "silent": Disturbance(
        "Leaves that export nothing", "share of leaves", [0.0625, 0.125, 0.25, 0.5], _silencing
    ),
    "retransmission": Disturbance(
        "Packets retransmitted", "probability a packet", [3.3e-9, 1e-7, 1e-6, 1e-5, 1e-4],
        lambda level, *_: {"effects": _retransmitting(level)},
    ),
    "merging": Disturbance(
        "Records cut only by silence", "idle gap [ms]", [1, 5, 15, 50, 200, 1000], _merging
    ),
}  # fmt: skip
"""Disturbances by their name in results."""
