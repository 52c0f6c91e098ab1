"""The communication library of a job, where it shows on the wire."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.scenario.base import Closed

Transport = Literal["roce", "tcp"]
"""What carries a job's messages: RDMA over UDP (RoCE v2), or sockets."""


class Library(Closed):
    """A library that moves messages over sockets and by agreement, as gloo does.

    Sender and receiver tell each other when they are ready; only then the data fly. Rings cut
    their chunks into segments, of which two are under way at a time. Defaults: gloo
    (``gloo/transport/tcp/pair.h`` for the header, ``gloo/allreduce.h`` for segments).
    """

    control_bytes: int = Field(
        default=48,
        ge=1,
        le=1_000_000_000,
        description="Bytes of a control message, and of the header in front of every message. "
        "Default: gloo's, six words of eight bytes.",
    )
    segment_bytes: int = Field(
        default=1024 * 1024,
        ge=1,
        le=10**15,
        description="Largest segment of a ring's chunk [bytes]; a chunk has two at least. "
        "Default: gloo's.",
    )
    side_by_side: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Gradient collectives of a group that run at a time. Default: 1, as where the "
        "trainer waits for each. PyTorch's gloo backend has two threads, which "
        "DistributedDataParallel keeps busy.",
    )
    handling_ms: float = Field(
        default=0.0,
        ge=0,
        le=1e9,
        description="Time from a segment's arrival to the next thing that the rank does, whatever "
        "the segment's size: waking up [ms]. Default: none.",
    )
    handling_ns_per_byte: float = Field(
        default=0.0,
        ge=0,
        le=1e6,
        description="Further time for every byte of the segment: adding, copying [ns/byte].",
    )
    handling_sigma: float = Field(
        default=0.0, ge=0, le=3, description="Sigma of the lognormal factor (median 1) on both."
    )
