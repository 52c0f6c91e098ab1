"""Rendezvous: the ranks of a job find each other through a store on the first rank's host."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field

from prism_common.kinds import OTHER
from prism_sim.collector.control_traffic import ANSWER_NS, exchange, handshake, segments, when_due
from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.job_hosts import JobHosts
from prism_sim.collector.rows import Rows, nothing
from prism_sim.collector.tuples import TCP, FiveTuple


class Rendezvous(EffectBase):
    """Before a job starts, every rank connects to a store on rank 0's host and sends requests.

    This is PyTorch's TCPStore: one TCP connection a rank, kept open, one request and one response
    at a time. Processes use the first NIC of their server. Ranks on the server of rank 0 cause no
    traffic. Times before zero are valid: a job that starts at 0 s had its rendezvous before. A
    restarted job has another rendezvous, once the old processes have ended.
    """

    needs_packets = True

    kind: Literal["rendezvous"] = "rendezvous"
    port: int = Field(default=29500, ge=1, le=65535)
    """Port of the store. Default: PyTorch's."""
    before_s: float = Field(default=5.0, ge=0, le=1e8)
    """Start of the rendezvous, before the job's first step [s]. Default: real captures, 4.8 to 7.0
    s."""
    lasts_s: float = Field(default=0.5, ge=0, le=1e8)
    """Ranks connect at random within this time, and their requests end with it [s]. Default: real
    captures, 0.25 to 0.9 s."""
    requests: int = Field(default=16, ge=1, le=1_000_000)
    """Requests of a rank. Default: real captures, 16 with one process group of gloo; 26 with
    three."""
    request_bytes: int = Field(default=89, ge=1, le=1_000_000_000)
    """Payload of a request [bytes]. Default: real captures."""
    answer_bytes: int = Field(default=99, ge=1, le=1_000_000_000)
    """Payload of a response [bytes]. Default: real captures."""

    def stage(self, scene: Scene) -> Stage:
        return when_due(scene, partial(self._requests, scene))

    def _requests(self, scene: Scene, hosts: JobHosts) -> Rows:
        nics = hosts.nics.tolist()
        remote = [rank for rank, nic in enumerate(nics) if nic != nics[0]]
        rows = [self._of_rank(scene, hosts, rank) for rank in remote]
        return np.concatenate([nothing(), *rows])

    def _of_rank(self, scene: Scene, hosts: JobHosts, rank: int) -> Rows:
        """All requests of one rank to the store, and the responses."""
        host, store = int(hosts.nics[rank]), int(hosts.nics[0])
        known = scene.tuples
        whose = (self.kind, hosts.job, hosts.restarts, rank)
        tup = FiveTuple(host, store, known.port(*whose), self.port, TCP)
        number = known.add(tup, (hosts.job, OTHER))
        drawn = np.sort(scene.draws.stream(*whose).random(self.requests))
        before_s, lasts_s = hosts.rendezvous_time(self.before_s, self.lasts_s)
        begin_ns = hosts.start_ns - round(before_s * 1e9)
        asked_ns = begin_ns + np.rint(drawn * lasts_s * 1e9).astype(np.int64)
        tuples = np.full(self.requests, number, np.int32)
        trip_ns = 2 * (int(known.column("latency_ns")[number]) + ANSWER_NS)
        asked_ns = np.maximum(asked_ns, hosts.processes_since_ns + trip_ns)
        opening = exchange(scene, tuples[:1], asked_ns[:1] - trip_ns, *handshake(0, 0))
        ask, answer = segments(self.request_bytes, bare=1), segments(self.answer_bytes, bare=1)
        return np.concatenate([opening, exchange(scene, tuples, asked_ns, ask, answer)])
