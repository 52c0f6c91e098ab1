"""DeepSpeed: rank 0 prints steps, its rate and checkpoints; each rank prints harmless overflows.

Source: microsoft/DeepSpeed, deepspeed/utils/logging.py, utils/timer.py and runtime/engine.py.
Since 2025 its level is WARNING by default; here the user has set INFO, as most do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from prism_sim.logs.text import milliseconds
from prism_sim.logs.tools.base import Tool


class DeepSpeed(Tool):
    """DeepSpeed 0.14."""

    version: ClassVar[str] = "0.14"

    def line(self, rank: int, time_ns: int, place: str, text: str, level: str = "INFO") -> str:
        stamp = milliseconds(self.of_rank(rank, time_ns))
        return f"[{stamp}] [{level}] [{place}] {self.named(rank)}{text}"

    def named(self, rank: int) -> str:
        """How log_dist names the rank."""
        return f"[Rank {rank}] "

    def printer(self) -> int:
        """The rank that prints iterations."""
        return 0

    def iterations(
        self, rank: int, rows: Sequence[tuple[int, int, float, float, float]]
    ) -> list[str]:
        """A line for each (end [ns], iteration, length [ms], loss, gradient norm)."""
        samples = self.job.dp * 8
        return [
            self.line(
                rank,
                end_ns,
                "logging.py:96:log_dist",
                f"step={number}, skipped=0, lr=[0.00015], mom=[[0.9, 0.95]], loss={loss:.4f}, "
                f"grad_norm={norm:.3f}, iter time (s): {length_ms / 1000:.3f}, samples/sec: "
                f"{samples * 1000 / max(length_ms, 1e-3):.3f}",
            )
            for end_ns, number, length_ms, loss, norm in rows
        ]

    def arguments(self) -> list[str]:
        options = (
            ("train_batch_size", self.job.dp * 8),
            ("zero_optimization_stage", 1),
            ("gradient_clipping", 1.0),
            ("world_size", self.job.ranks),
            ("bfloat16_enabled", True),
            ("steps_per_print", 1),
        )
        begin = self.job.times.begin_ns
        place = "config.py:1003:print_user_config"
        return [
            self.line(0, begin, place, f"  {name} {'.' * (30 - len(name))} {value}")
            for name, value in options
        ]

    def building(self) -> list[str]:
        begin = self.job.times.begin_ns
        return [
            self.line(0, begin, "comm.py:652:init_distributed", "cdb=None"),
            self.line(
                0,
                begin,
                "comm.py:683:init_distributed",
                "Initializing TorchBackend in DeepSpeed with backend nccl",
            ),
            self.line(
                0, begin, "engine.py:331:_configure_optimizer", "Using client Optimizer: AdamW"
            ),
        ]

    def loading(self, rank: int, time_ns: int) -> list[str]:
        first, folder = self.job.times.first, f"/ckpt/{self.job.user}/run"
        place = "engine.py:2763:_get_all_zero_checkpoint_state_dicts"
        if first <= 1:
            text = f"Unable to find latest file at {folder}/latest, if trying to load latest "
            text += "checkpoint please ensure this file exists or pass an explicit checkpoint tag"
            return [self.line(rank, time_ns, "engine.py:2623:load_checkpoint", text, "WARNING")]
        text = f"successfully read {self.job.ranks} ZeRO state_dicts for rank {rank}"
        return [self.line(rank, time_ns, place, text)]

    def starting(self, rank: int, time_ns: int) -> list[str]:
        return [self.line(rank, time_ns, "logging.py:96:log_dist", "DeepSpeed Engine is ready")]

    def saving(self, rank: int, time_ns: int, iteration: int) -> list[str]:
        text = f"Saving model checkpoint: /ckpt/{self.job.user}/run/global_step{iteration}/"
        return [self.line(rank, time_ns, "engine.py:3410:_save_checkpoint", text)]

    def saved(self, rank: int, time_ns: int, iteration: int, length_ms: float) -> list[str]:
        name = f"/ckpt/{self.job.user}/run/global_step{iteration}/mp_rank_00_model_states.pt"
        text = f"[Torch] Saved {name}."
        ready = f"[Torch] Checkpoint global_step{iteration} is ready now!"
        place = "torch_checkpoint_engine.py"
        return [
            self.line(rank, time_ns, f"{place}:23:save", text),
            self.line(rank, time_ns, f"{place}:33:commit", ready),
        ]

    def evaluated(self, rank: int, time_ns: int, iteration: int, loss: float) -> list[str]:
        text = f"evaluation at step {iteration}: loss={loss:.4f}"
        return [self.line(rank, time_ns, "train.py:412:evaluate", text)]

    def finishing(self, rank: int, time_ns: int) -> list[str]:
        return [self.line(rank, time_ns, "train.py:451:main", "training finished")]


class DeepSpeed018(DeepSpeed):
    """DeepSpeed 0.18: ranks are no longer named."""

    version: ClassVar[str] = "0.18"
    held_out: ClassVar[bool] = True

    def named(self, rank: int) -> str:
        return ""
