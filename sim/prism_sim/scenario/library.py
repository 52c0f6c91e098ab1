"""The communication library of a job, as far as the job's traffic depends on it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.scenario.base import Closed

Transport = Literal["roce", "tcp"]
"""The transport of a job's messages: RDMA over UDP (RoCE v2), or sockets."""


class Library(Closed):
    """A library that sends messages over sockets with a rendezvous, as gloo does.

    Sender and receiver notify each other when they are ready; then the data are sent. Rings cut
    their chunks into segments, of which two are in flight at a time. Defaults: gloo
    (``gloo/transport/tcp/pair.h`` for the header, ``gloo/allreduce.h`` for segments).
    """

    control_bytes: int = Field(default=48, ge=1, le=1_000_000_000)
    """Bytes of a control message, and of the header in front of every message. Default: that of
    gloo, six words of eight bytes."""
    segment_bytes: int = Field(default=1024 * 1024, ge=1, le=10**15)
    """Largest segment of a ring's chunk [bytes]; a chunk has at least two. Default: that of
    gloo."""
    gather_to: Literal["previous", "next"] = "previous"
    """The rank to which a rank sends in an all-gather. gloo: next (``gloo/allgather.cc``); to the
    previous one in an all-reduce."""
    reduce_scatter_as: Literal["reduce_scatter", "all_reduce"] = "reduce_scatter"
    """all_reduce: a reduce-scatter is an all-reduce of which each rank keeps its part, so it sends
    twice the bytes, as in PyTorch's gloo backend."""
    side_by_side: int = Field(default=1, ge=1, le=10_000)
    """Gradient collectives of a group that run at the same time. Default: 1, for a trainer that
    waits for each. PyTorch's gloo backend has two threads, and DistributedDataParallel uses
    both."""
    handling_ms: float = Field(default=0.0, ge=0, le=1e9)
    """Time from a segment's arrival to the rank's next action [ms], independent of the segment's
    size: scheduling delay. Default: none."""
    handling_ns_per_byte: float = Field(default=0.0, ge=0, le=1e6)
    """Further time for each byte of the segment: adding, copying [ns/byte]."""
    handling_sigma: float = Field(default=0.0, ge=0, le=3)
    """Sigma of the lognormal factor (median 1) on both."""
