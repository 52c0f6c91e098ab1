"""Faults of computation: GPUs, servers, and work that is shared out badly."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import SLOW_COMPUTE, SlowFault, every_name
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfJob, OfRank, OfServer, OfStage
from prism_sim.faults.target import Target, Undo, together
from prism_sim.faults.timing import Pulsed, nanoseconds, repeatedly
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


# A GPU that computes slower than its peers: throttling, a bad clock, a noisy neighbour.
class SlowGpu(OfRank, SlowFault):
    """One rank's forward and backward passes take 1/factor as long.

    Its tensor-parallel group works in lock-step, so the whole group is as slow. A window in
    seconds takes effect with the next pass.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["slow_gpu"] = "slow_gpu"

    def begin(self, target: Target) -> Undo:
        return target.compute.slow(self.job, self.rank, self.factor)


# A GPU that heats up: its speed falls slowly, and stays low.

LEVELS = 20
"""Equal steps from the healthy speed to the lowest."""


class ThermalRamp(OfRank, SlowFault):
    """The speed of one rank falls evenly from its healthy value to ``factor`` of it.

    The clock of a hot GPU is lowered in small steps, here 20, until heat and cooling balance.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["thermal_ramp"] = "thermal_ramp"
    ramp_s: float = Field(ge=1e-6, le=1e8, description="Time from the first to the last step [s].")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"ramp_s": drawing.lasts_s / 2}

    def begin(self, target: Target) -> Undo:
        undo: list[Undo] = []

        def lower(number: int) -> None:
            if number < LEVELS:
                revert()
                factor = 1 - (1 - self.factor) * (number + 1) / LEVELS
                undo.append(target.compute.slow(self.job, self.rank, factor))
            else:
                stop()

        def revert() -> None:
            while undo:
                undo.pop()()

        stop = repeatedly(target.clock, nanoseconds(self.ramp_s / (LEVELS - 1)), lower)

        def end() -> None:
            stop()
            revert()

        return end


# A GPU that is slow from time to time: power capping, a neighbour's bursts, retried memory.
class IntermittentGpu(Pulsed, OfRank, SlowFault):
    """One rank computes at ``factor`` of its speed for ``lasts_s`` in every ``every_s``."""

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["intermittent_gpu"] = "intermittent_gpu"

    def begin(self, target: Target) -> Undo:
        compute = target.compute
        return self.pulsed(target.clock, lambda: compute.slow(self.job, self.rank, self.factor))


# A server whose CPUs are busy with something else, so that all its GPUs wait for them.
class SlowServer(OfServer, SlowFault):
    """All passes of the ranks on one server take 1/factor as long.

    Kernels are started late when other processes take the CPUs: the GPUs are healthy, and idle in
    between.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["slow_server"] = "slow_server"

    def begin(self, target: Target) -> Undo:
        compute = target.compute
        return together(
            compute.slow(job, rank, self.factor) for job, rank in compute.workers_on(self.server)
        )

    def jobs_affected(self, target: Target) -> list[str]:
        return sorted({job for job, _ in target.compute.workers_on(self.server)})


# Pauses of garbage collection: the processes of a server stop from time to time.
class GcPauses(OfServer):
    """The ranks of one server pause for ``pause_ms`` every ``every_s``, before their next pass.

    Each process collects when it has created enough objects, so ranks do not pause at one time:
    they begin one after another, evenly over the period. Reference: Lin et al., Understanding
    stragglers in large model training, OSDI'25, section 5.4.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["gc_pauses"] = "gc_pauses"
    pause_ms: float = Field(ge=1e-6, le=1e9, description="Length of a pause [ms].")
    every_s: float = Field(ge=1e-6, le=1e8, description="Time from one pause to the next [s].")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """The pauses take as long together as the severity says."""
        every_s = drawing.every_s
        pause_ms = 1e3 * every_s * (1 - drawing.factor)
        return super().drawn(drawing) | {"every_s": every_s, "pause_ms": pause_ms}

    def magnitude(self, target: Target) -> float:
        return min(1.0, self.pause_ms / 1e3 / (self.every_s + self.pause_ms / 1e3))

    def begin(self, target: Target) -> Undo:
        compute, turns = target.compute, target.compute.workers_on(self.server)

        def pause(number: int) -> None:
            job, rank = turns[number % len(turns)]
            compute.stall(job, rank, nanoseconds(self.pause_ms / 1e3))

        if not turns:
            return lambda: None
        return repeatedly(target.clock, nanoseconds(self.every_s / len(turns)), pause)

    def jobs_affected(self, target: Target) -> list[str]:
        return sorted({job for job, _ in target.compute.workers_on(self.server)})


# A data loader that falls behind: a rank waits for its next batch.
class LoaderStalls(OfRank):
    """One rank waits ``stall_ms`` for its data before the first pass of every ``every`` steps."""

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["loader_stalls"] = "loader_stalls"
    stall_ms: float = Field(ge=1e-6, le=1e9, description="Length of a stall [ms].")
    every: int = Field(default=1, ge=1, le=1_000_000)
    """Steps from one stall to the next."""

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """As long as makes a step as slow, in every step or as rarely as is drawn."""
        stall_ms = max(1e3 * drawing.step_s * (1 / drawing.factor - 1), 1e-6)
        return super().drawn(drawing) | {"stall_ms": stall_ms, "every": drawing.every_steps or 1}

    def magnitude(self, target: Target) -> float:
        step_ns = target.compute.shortest_step_ns(self.job)
        stall_ns = self.stall_ms * 1e6 / self.every
        return min(1.0, stall_ns / (step_ns + stall_ns))

    def begin(self, target: Target) -> Undo:
        over: list[bool] = []
        compute = target.compute

        def stall(step: int) -> None:
            if not over:
                compute.stall(self.job, self.rank, round(self.stall_ms * 1e6))
                following = step + self.every
                compute.at_step_of_rank(self.job, self.rank, following, lambda: stall(following))

        stall(compute.step_of_rank(self.job, self.rank))
        return lambda: over.append(True)


# A pipeline stage with more work than the others: layers are cut badly, or a head is heavy.
class UnevenStage(OfStage, SlowFault):
    """All passes of one pipeline stage take 1/factor as long, on every replica.

    Reference: Lin et al., Understanding stragglers in large model training, OSDI'25: imbalance of
    the last stage is the most frequent cause of slow jobs (39.3 %).
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["uneven_stage"] = "uneven_stage"

    def begin(self, target: Target) -> Undo:
        compute = target.compute
        ranks = compute.workers_of_stage(self.job, self.stage)
        return together(compute.slow(self.job, rank, self.factor) for rank in ranks)


# A GPU whose NVLink has lost lanes: everything inside the server is slow for it.
class DegradedNvlink(OfRank, SlowFault):
    """The NVLink of one GPU runs at ``factor`` of its rate, in both directions.

    Rings through the server slow down with it. The tensor-parallel all-reduces inside the passes
    of its group take 1/factor as long; they are a part of the duration of a pass.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE | {"slow_nvlink"}

    kind: Literal["degraded_nvlink"] = "degraded_nvlink"

    def begin(self, target: Target) -> Undo:
        compute = target.compute
        share = compute.nvlink_share(self.job, self.rank)
        speed = 1 / (1 - share + share / self.factor)
        links = compute.nvlink_of(self.job, self.rank)
        return together(
            [target.links.slow(links, self.factor), compute.slow(self.job, self.rank, speed)]
        )


# Sequences of different length: some micro-batches take longer, and stages wait for each other.
class LengthImbalance(OfJob):
    """The tokens of micro-batches vary, by a lognormal factor of sigma ``spread``.

    A window in seconds takes effect with the first step that no rank has begun. Reference: Lin et
    al., OSDI'25: imbalance of sequence lengths is the cause of 21.4 % of slow jobs.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"sequence_length_imbalance"})

    kind: Literal["length_imbalance"] = "length_imbalance"
    spread: float = Field(ge=1e-6, le=1, description="Sigma of the factor, as in length_spread.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"spread": max(1 - drawing.factor, 1e-6)}

    def magnitude(self, target: Target) -> float:
        return self.spread

    def begin(self, target: Target) -> Undo:
        return target.compute.vary("length_spread", self.job, self.spread, self.steps_varied)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        job = self.outline(setting)
        if job is not None and not job.varies_lengths:
            what = f"sequences of different lengths are not modelled for job {job.name}"
            how = "name a job with a model, whose ranks share no experts"
            yield Remark(("job",), what, how, every_name(setting))


# Experts of different popularity: some ranks get more tokens, and the others wait for them.
class ExpertImbalance(OfJob):
    """The share of tokens that a rank receives varies, by a lognormal factor of sigma ``spread``.

    It is drawn for each layer and micro-batch. A window in seconds takes effect with the first step
    that no rank has begun.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"expert_load_imbalance"})

    kind: Literal["expert_imbalance"] = "expert_imbalance"
    spread: float = Field(ge=1e-6, le=2, description="Sigma of the share, as in moe.imbalance.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"spread": max(1 - drawing.factor, 1e-6)}

    def magnitude(self, target: Target) -> float:
        return min(1.0, self.spread)

    def begin(self, target: Target) -> Undo:
        return target.compute.vary("expert_imbalance", self.job, self.spread, self.steps_varied)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        job = self.outline(setting)
        if job is not None and not job.shares_experts:
            what = f"the ranks of job {job.name} share no experts"
            yield Remark(("job",), what, "give it moe, and ep above 1", every_name(setting))
