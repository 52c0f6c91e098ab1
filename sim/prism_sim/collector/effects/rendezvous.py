"""Rendezvous: the ranks of a job find each other at a store on the first rank's host."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field

from llmprism.kinds import OTHER
from prism_sim.collector.crews import Crew
from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows, nothing
from prism_sim.collector.talk import ANSWER_NS, exchange, handshake, in_time, segments
from prism_sim.collector.tuples import TCP, FiveTuple


class Rendezvous(EffectBase):
    """Before a job starts, every rank connects to rank 0's host and asks small things of it.

    That is PyTorch's TCPStore: one TCP connection a rank, kept open, with a question and an
    answer at a time. Processes talk through their server's first NIC; those beside rank 0
    leave no trace. A job that begins anew meets anew. Times before zero are right: a job that
    starts at 0 s met before. One that begins anew meets when the old processes are gone.
    """

    needs_packets = True

    kind: Literal["rendezvous"] = "rendezvous"
    port: int = Field(
        default=29500, ge=1, le=65535, description="Port of the store. Default: PyTorch's."
    )
    before_s: float = Field(
        default=5.0,
        ge=0,
        le=1e8,
        description="Begin of the meeting, before the job's first step [s]. Default: real "
        "captures, 4.8 to 7.0 s.",
    )
    lasts_s: float = Field(
        default=0.5,
        ge=0,
        le=1e8,
        description="Ranks arrive at random within this time, and their questions end with it "
        "[s]. Default: real captures, 0.25 to 0.9 s.",
    )
    requests: int = Field(
        default=16,
        ge=1,
        le=1_000_000,
        description="Questions of a rank. Default: real captures, 16 with one process group of "
        "gloo; 26 with three.",
    )
    request_bytes: int = Field(
        default=89,
        ge=1,
        le=1_000_000_000,
        description="Payload of a question [bytes]. Default: real captures.",
    )
    answer_bytes: int = Field(
        default=99,
        ge=1,
        le=1_000_000_000,
        description="Payload of an answer [bytes]. Default: real captures.",
    )

    def stage(self, scene: Scene) -> Stage:
        return in_time(scene, partial(self._meeting, scene))

    def _meeting(self, scene: Scene, crew: Crew) -> Rows:
        hosts = crew.hosts.tolist()
        away = [rank for rank, host in enumerate(hosts) if host != hosts[0]]
        rows = [self._visit(scene, crew, rank, hosts[rank], hosts[0]) for rank in away]
        return np.concatenate([nothing(), *rows])

    def _visit(self, scene: Scene, crew: Crew, rank: int, host: int, store: int) -> Rows:
        """All that one rank and the store say."""
        known = scene.tuples
        whose = (self.kind, crew.job, crew.life, rank)
        tup = FiveTuple(host, store, known.port(*whose), self.port, TCP)
        number = known.add(tup, (crew.job, OTHER))
        drawn = np.sort(scene.draws.stream(*whose).random(self.requests))
        before_s, lasts_s = crew.time_to_meet(self.before_s, self.lasts_s)
        begin_ns = crew.start_ns - round(before_s * 1e9)
        asked_ns = begin_ns + np.rint(drawn * lasts_s * 1e9).astype(np.int64)
        tuples = np.full(self.requests, number, np.int32)
        trip_ns = 2 * (int(known.column("latency_ns")[number]) + ANSWER_NS)
        asked_ns = np.maximum(asked_ns, crew.born_ns + trip_ns)
        opening = exchange(scene, tuples[:1], asked_ns[:1] - trip_ns, *handshake(0, 0))
        ask, answer = segments(self.request_bytes, bare=1), segments(self.answer_bytes, bare=1)
        return np.concatenate([opening, exchange(scene, tuples, asked_ns, ask, answer)])
