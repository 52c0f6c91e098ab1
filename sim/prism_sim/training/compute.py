"""Factors on computation times: jitter, warm-up, sequence lengths, slow GPUs.

A worker takes all factors on its computation from here. Factors common to a job (random draws,
warm-up) are in :class:`ComputeTimes`; the faults that slow down one worker are in
:class:`SpeedFactors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.draws import Draws
from prism_sim.scenario.job import JobConfig


def _nothing() -> None:
    """Ignore a change."""


LONGEST = 4.0
"""Maximum length of a micro-batch relative to the nominal one: packing bounds the lognormal."""

LONGEST_TAIL = 100.0
"""Maximum factor of a heavy tail."""


class SpeedFactors:
    """The speed of one worker: what active faults do to it.

    Parameters
    ----------
    factors : on its speed, one for each active fault.
    own : constant factor on the duration of its computation: healthy GPUs differ.

    >>> speed = SpeedFactors([0.5, 0.5])
    >>> speed.duration_factor
    4.0

    Attributes
    ----------
    stall_ns : time that the worker waits before its next pass.
    held : what the worker waits for before its next pass, if it hangs.
    on_change : called after every change.
    """

    def __init__(self, factors: Iterable[float] = (), own: float = 1.0) -> None:
        self._factors = list(factors)
        self.own = own
        self.stall_ns = 0
        self.held: simpy.Event | None = None
        self.on_change: Callable[[], None] = _nothing

    def slow(self, factor: float) -> None:
        """Multiply the speed by ``factor``."""
        self._factors.append(factor)
        self.on_change()

    def restore(self, factor: float) -> None:
        """Undo one :meth:`slow` by ``factor``."""
        self._factors.remove(factor)
        self.on_change()

    def stall(self, stall_ns: int) -> None:
        """Let the worker wait before its next pass."""
        self.stall_ns += stall_ns
        self.on_change()

    def hold(self, held: simpy.Event | None) -> None:
        """Let the worker hang before its next pass until ``held`` happens; None: go on."""
        self.held = held
        self.on_change()

    def take_stall(self) -> int:
        """The time to wait before this pass [ns]; the next one does not wait again."""
        stall_ns, self.stall_ns = self.stall_ns, 0
        return stall_ns

    @property
    def duration_factor(self) -> float:
        """Factor on the duration of all present computation of the worker."""
        return self.own / float(np.prod(self._factors)) if self._factors else self.own

    @classmethod
    def of_gpus(cls, gpus: Iterable[int], spread: float, draws: Draws) -> SpeedFactors:
        """The speed of GPUs in lock-step, which is that of the slowest."""
        speed = cls()
        if spread:
            normal = (draws.stream("gpu speed", gpu).standard_normal() for gpu in gpus)
            speed.own = float(np.exp(spread * max(normal)))
        return speed


@dataclass
class Variation:
    """Another value of a random quantity's sigma, in steps from ``first`` to before ``stop``."""

    value: float
    first: int
    stop: int | None = None


Varied = dict[str, list[Variation]]
"""Variations of each quantity of a job, the latest last."""


class ComputeTimes:
    """Factors on the durations of one job's computation; every draw has its own key.

    Parameters
    ----------
    config : the job.
    draws : source of random numbers.
    varied : what faults change in some steps.
    """

    def __init__(self, config: JobConfig, draws: Draws, varied: Varied | None = None) -> None:
        self._config = config
        self._draws = draws
        self._varied = varied or {}

    def sigma(self, what: str, step: int) -> float:
        """Sigma of ``length_spread`` or ``expert_imbalance`` in ``step``."""
        for each in reversed(self._varied.get(what, ())):
            if each.first <= step and (each.stop is None or step < each.stop):
                return each.value
        config = self._config
        if what == "expert_imbalance":
            return config.mixture.imbalance if config.mixture else 0.0
        return config.length_spread

    def noise(self, rank: int, server: int, step: int, rows: int) -> NDArray[np.float64]:
        """Factor on every pass, shape (rows, micro-batches); one row per kind and chunk.

        It has a part of its own, parts that the ranks of one server or of the job share, and a
        tail.
        """
        config, key = self._config, (self._config.name, step)
        factor = self.jitter(rank, step, rows)
        if config.server_jitter:
            shared = self._draws.stream("server compute", *key, server)
            normal = shared.standard_normal(config.micro_batches)
            factor = factor * np.exp(config.server_jitter * normal)
        if config.common_jitter:
            common = self._draws.stream("common compute", *key).standard_normal()
            factor = factor * float(np.exp(config.common_jitter * common))
        if config.tail_probability:
            stream = self._draws.stream("compute tail", *key, rank)
            chance, size = stream.random((2, *factor.shape[::-1]))
            tail = np.minimum((1 - size) ** (-1 / config.tail_index), LONGEST_TAIL)
            factor = np.where(chance < config.tail_probability, tail, 1.0).T * factor
        return factor

    def jitter(self, rank: int, step: int, rows: int) -> NDArray[np.float64]:
        """The part that every pass has of its own, shape (rows, micro-batches)."""
        config = self._config
        shape = (rows, config.micro_batches)
        if config.compute_jitter == 0:
            return np.ones(shape)
        stream = self._draws.stream("compute", config.name, rank, step)
        normal = stream.standard_normal(shape[::-1]).T  # more micro-batches change no other draw
        return np.exp(config.compute_jitter * normal)

    def lengths(self, member: int, step: int) -> list[float] | None:
        """Tokens of each micro-batch relative to the nominal number; None if all are nominal.

        All stages of a replica, and the ranks that share its sequences, have the same lengths.
        """
        config = self._config
        spread = self.sigma("length_spread", step)
        if not spread:
            return None
        stream = self._draws.stream("lengths", config.name, member // config.cp, step)
        normal = stream.standard_normal(config.micro_batches)
        factor = np.minimum(np.exp(spread * normal), LONGEST)
        return [float(f) for f in factor]

    def warm_up(self, step: int, first_step: int) -> float:
        """Factor on the compute of ``step``: above 1 while the job warms up."""
        config = self._config
        if not config.warm_up_steps:
            return 1.0
        cold = max(0.0, 1 - (step - first_step) / config.warm_up_steps)
        return 1 + (config.warm_up_factor - 1) * cold

    def overhead_ns(self, rank: int, step: int) -> int:
        """Host time before ``step`` without traffic [ns]."""
        config = self._config
        sigma = config.step_overhead_jitter
        factor = 1.0
        if sigma:
            stream = self._draws.stream("overhead", config.name, rank, step)
            factor = float(np.exp(sigma * stream.standard_normal()))
        return round(config.step_overhead_ms * 1e6 * factor)
