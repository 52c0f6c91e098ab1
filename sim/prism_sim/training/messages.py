"""Messages between pipeline stages: their path, and their spans in the truth."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE_SPANS = (("send_act", "recv_act"), ("send_grad", "recv_grad"))
"""Kinds of the spans of a message at its sender and its receiver, forward and backward."""


@dataclass(frozen=True)
class MessagePath:
    """The path of a message to another stage: one flow per rank.

    Attributes
    ----------
    bundle : number of the bundle of flows in the fabric.
    latency_ns : latency of the longest path.
    routes : numbers of the flows' routes.
    """

    bundle: int
    latency_ns: int
    routes: tuple[int, ...] = ()
