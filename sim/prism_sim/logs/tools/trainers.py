"""The frameworks of training: Megatron-LM and DeepSpeed."""

from __future__ import annotations

from typing import Any, ClassVar

from prism_sim.logs.text import microseconds, milliseconds
from prism_sim.logs.tools.base import Trainer


# Megatron-LM: iterations (the last rank prints them), checkpoints, evaluations, the start.
#
# Source: NVIDIA/Megatron-LM, megatron/training/training.py (training_log, print_datetime) and
# checkpointing.py. The older version has no times in its lines, as in BLOOM's logs.
class Megatron(Trainer):
    """Megatron-LM core 0.12: lines have times."""

    name: ClassVar[str] = "megatron"
    version: ClassVar[str] = "0.12"

    def stamp(self, rank: int, time_ns: int) -> str:
        return f"[{microseconds(self.of_rank(rank, time_ns))}] "

    def printer(self) -> int:
        return self.job.ranks - 1

    def prints(self, statement: str, rank: int, time_ns: int, **values: Any) -> list[str]:
        values["datetime"] = microseconds(self.of_rank(rank, time_ns))
        values["stamp"] = self.stamp(rank, time_ns)
        values["least_ms"] = 0.99 * values.get("length_ms", 0.0)
        values["perplexity"] = min(2.718281828 ** values.get("loss", 0.0), 1e9)
        text: str = self.statement(statement).format(**self.facts, **values)
        border = ["-" * len(text)] if statement == "evaluated" else []
        return [*border, *text.split("\n"), *border]

    def iterations(self, rank: int, rows: list[tuple[int, int, float, float, float]]) -> list[str]:
        total, batch = self.job.times.total, self.job.dp * 8
        return [
            f" {self.stamp(rank, end_ns)}iteration {number:8d}/{total:8d} | consumed samples: "
            f"{number * batch:12d} | elapsed time per iteration (ms): {length_ms:.1f} | throughput "
            f"per GPU (TFLOP/s/GPU): {self.rate(length_ms):.1f} | learning rate: 1.500000E-04 | "
            f"global batch size: {batch:5d} | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: "
            f"{norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
            for end_ns, number, length_ms, loss, norm in rows
        ]

    def rate(self, length_ms: float) -> float:
        """TFLOP/s of a GPU: 400 at the median length."""
        return 400 * self.job.times.step_ns / 1e6 / max(length_ms, 1e-3)


class Megatron03(Megatron):
    """Megatron-LM core 0.3: no times."""

    version: ClassVar[str] = "0.3"

    def stamp(self, rank: int, time_ns: int) -> str:
        return ""


# DeepSpeed: rank 0 prints steps, its rate and checkpoints; each rank prints harmless overflows.
#
# Source: microsoft/DeepSpeed, deepspeed/utils/logging.py, utils/timer.py and runtime/engine.py.
# Since 2025 its level is WARNING by default; here the user has set INFO, as most do.
class DeepSpeed(Trainer):
    """DeepSpeed 0.14."""

    name: ClassVar[str] = "deepspeed"
    version: ClassVar[str] = "0.14"

    def line(self, level: str, rank: int, time_ns: int, place: str, text: str) -> str:
        stamp = milliseconds(self.of_rank(rank, time_ns))
        return f"[{stamp}] [{level}] [{place}] {self.named(rank)}{text}"

    def named(self, rank: int) -> str:
        """How log_dist names the rank."""
        return f"[Rank {rank}] "

    def printer(self) -> int:
        return 0

    def prints(self, statement: str, rank: int, time_ns: int, **values: Any) -> list[str]:
        known = {**self.facts, "rank": rank, **values}
        return [
            self.line(level, rank, time_ns, place, text.format(**known))
            for level, place, text in self.statement(statement)
        ]

    def iterations(self, rank: int, rows: list[tuple[int, int, float, float, float]]) -> list[str]:
        samples = self.job.dp * 8
        return [
            self.line(
                "INFO", rank, end_ns, "logging.py:96:log_dist",
                f"step={number}, skipped=0, lr=[0.00015], mom=[[0.9, 0.95]], loss={loss:.4f}, "
                f"grad_norm={norm:.3f}, iter time (s): {length_ms / 1000:.3f}, samples/sec: "
                f"{samples * 1000 / max(length_ms, 1e-3):.3f}",
            )
            for end_ns, number, length_ms, loss, norm in rows
        ]  # fmt: skip


class DeepSpeed018(DeepSpeed):
    """DeepSpeed 0.18: ranks are no longer named."""

    version: ClassVar[str] = "0.18"
    held_out: ClassVar[bool] = True

    def named(self, rank: int) -> str:
        return ""
