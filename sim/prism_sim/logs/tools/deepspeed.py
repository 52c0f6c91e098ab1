"""DeepSpeed: rank 0 prints steps, its rate and checkpoints; each rank prints harmless overflows.

Source: microsoft/DeepSpeed, deepspeed/utils/logging.py, utils/timer.py and runtime/engine.py.
Since 2025 its level is WARNING by default; here the user has set INFO, as most do.
"""

from __future__ import annotations

from typing import Any, ClassVar

from prism_sim.logs.text import milliseconds
from prism_sim.logs.tools.base import Trainer


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
