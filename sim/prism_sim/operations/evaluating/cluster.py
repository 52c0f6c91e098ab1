"""Nodes with GPUs, a link to the storage and CPUs, and the trials that run on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import simpy

from prism_sim.operations.evaluating.link import SharedLink
from prism_sim.operations.evaluating.study import Evaluation, Scheduler
from prism_sim.operations.evaluating.trials import Trial, packed, trials_of

Events = Generator[simpy.Event, Any, None]


@dataclass
class Outcome:
    """Times of one evaluation [s]; of a GPU's time, ``inference_s`` is the useful part."""

    makespan_s: float = 0.0
    held_s: float = 0.0
    phases_s: dict[str, float] = field(default_factory=dict)


class Cluster:
    """Runs all trials of a study under one scheduler."""

    def __init__(self, study: Evaluation, scheduler: Scheduler, nodes: int, seed: int) -> None:
        self._study, self._scheduler = study, scheduler
        self._env = simpy.Environment()
        trials = trials_of(study, seed)
        self._waiting = deque(packed(trials, study.part_s) if scheduler.packing else trials)
        self._links = [SharedLink(self._env, study.nic_gbps / 8) for _ in range(nodes)]
        cpus = study.cpu_jobs_per_node * nodes
        self._cpus = simpy.Resource(self._env, cpus)
        self._loaded: list[simpy.Event | None] = [None] * nodes
        self._outcome = Outcome()

    def run(self) -> Outcome:
        """Simulate until the last metric is known."""
        for _ in range(self._study.gpus_per_node):
            for node in range(len(self._links)):
                self._env.process(self._gpu(node))
        self._env.run()
        self._outcome.makespan_s = self._env.now
        return self._outcome

    def _gpu(self, node: int) -> Events:
        """A GPU takes the next trial until there are none."""
        while self._waiting:
            trial = self._waiting.popleft()
            began_s = self._env.now
            yield from self._load(node)
            self._count("load", self._env.now - began_s)
            for phase, takes_s in self._on_gpu(trial):
                self._count(phase, takes_s)
                yield self._env.timeout(takes_s)
            self._outcome.held_s += self._env.now - began_s
            if self._scheduler.metric_on_cpu:
                self._env.process(self._metric(trial.metric_s))

    def _on_gpu(self, trial: Trial) -> list[tuple[str, float]]:
        phases = [("preprocess", trial.preprocess_s), ("inference", trial.inference_s)]
        return phases if self._scheduler.metric_on_cpu else [*phases, ("metric", trial.metric_s)]

    def _load(self, node: int) -> Events:
        size = self._study.model_gbytes
        if not self._scheduler.shared_memory:
            yield self._links[node].transfer(size)
            return
        loaded = self._loaded[node] = self._loaded[node] or self._links[node].transfer(size)
        if not loaded.processed:
            yield loaded
        yield self._env.timeout(size / self._study.memory_gbytes_per_s)

    def _metric(self, takes_s: float) -> Events:
        with self._cpus.request() as cpu:
            yield cpu
            yield self._env.timeout(takes_s)

    def _count(self, phase: str, takes_s: float) -> None:
        self._outcome.phases_s[phase] = self._outcome.phases_s.get(phase, 0.0) + takes_s
