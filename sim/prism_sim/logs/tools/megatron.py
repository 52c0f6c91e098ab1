"""Megatron-LM: iterations (the last rank prints them), checkpoints, evaluations, the start.

Source: NVIDIA/Megatron-LM, megatron/training/training.py (training_log, print_datetime) and
checkpointing.py. The older version has no times in its lines, as in BLOOM's logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from prism_sim.logs.text import microseconds
from prism_sim.logs.tools.base import Tool

_ARGUMENTS = (
    ("accumulate_allreduce_grads_in_fp32", "True"),
    ("adam_beta1", "0.9"),
    ("adam_beta2", "0.95"),
    ("bf16", "True"),
    ("clip_grad", "1.0"),
    ("distributed_backend", "nccl"),
    ("distributed_timeout_minutes", "{timeout}"),
    ("data_parallel_size", "{dp}"),
    ("eval_interval", "1000"),
    ("exit_on_missing_checkpoint", "False"),
    ("log_interval", "1"),
    ("lr", "0.00015"),
    ("micro_batch_size", "1"),
    ("no_load_rng", "None"),
    ("num_workers", "2"),
    ("overlap_grad_reduce", "True"),
    ("pipeline_model_parallel_size", "{pp}"),
    ("rampup_batch_size", "None"),
    ("recompute_granularity", "selective"),
    ("save", "/ckpt/{user}/run"),
    ("tensor_model_parallel_size", "{tp}"),
    ("train_iters", "{total}"),
    ("transformer_impl", "transformer_engine"),
    ("use_distributed_optimizer", "True"),
    ("weight_decay", "0.1"),
    ("world_size", "{ranks}"),
)


class Megatron(Tool):
    """Megatron-LM core 0.12: lines have times."""

    version: ClassVar[str] = "0.12"

    def stamp(self, rank: int, time_ns: int) -> str:
        return f" [{microseconds(self.of_rank(rank, time_ns))}]"

    def printer(self) -> int:
        """The rank that prints iterations."""
        return self.job.ranks - 1

    def iterations(
        self, rank: int, rows: Sequence[tuple[int, int, float, float, float]]
    ) -> list[str]:
        """A line for each (end [ns], iteration, length [ms], loss, gradient norm)."""
        total, batch = self.job.times.total, self.job.dp * 8
        return [
            f"{self.stamp(rank, end_ns)} iteration {number:8d}/{total:8d} | consumed samples: "
            f"{number * batch:12d} | elapsed time per iteration (ms): {length_ms:.1f} | throughput "
            f"per GPU (TFLOP/s/GPU): {self.rate(length_ms):.1f} | learning rate: 1.500000E-04 | "
            f"global batch size: {batch:5d} | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: "
            f"{norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
            for end_ns, number, length_ms, loss, norm in rows
        ]

    def rate(self, length_ms: float) -> float:
        """TFLOP/s of a GPU: 400 at the median length."""
        return 400 * self.job.times.step_ns / 1e6 / max(length_ms, 1e-3)

    def arguments(self) -> list[str]:
        """All options, as rank 0 prints them at the start."""
        values = {
            "timeout": round(self.job.timeout_s / 60),
            "dp": self.job.dp,
            "pp": self.job.pp,
            "tp": self.job.tp,
            "user": self.job.user,
            "total": self.job.times.total,
            "ranks": self.job.ranks,
        }
        rows = (f"  {name} {'.' * (48 - len(name))} {text}" for name, text in _ARGUMENTS)
        head = "------------------------ arguments ------------------------"
        tail = "-------------------- end of arguments ---------------------"
        return [head, *(row.format(**values) for row in rows), tail]

    def building(self) -> list[str]:
        """What rank 0 builds before the first iteration."""
        return [
            "> initializing torch distributed ...",
            f"> initialized tensor model parallel with size {self.job.tp}",
            f"> initialized pipeline model parallel with size {self.job.pp}",
            "> setting random seeds to 1234 ...",
            "> compiling dataset index builder ...",
            "> building GPT2BPETokenizer tokenizer ...",
            "> building train, validation, and test datasets for GPT ...",
            "> finished creating GPT datasets ...",
        ]

    def loading(self, rank: int, time_ns: int) -> list[str]:
        """Rank 0 reads the checkpoint that the job continues from."""
        first, folder = self.job.times.first, f"/ckpt/{self.job.user}/run"
        if first <= 1:
            return [
                f"WARNING: could not find the metadata file {folder}/latest_checkpointed_iteration"
                ".txt",
                "    will not load any checkpoints and will start from random",
            ]
        return [
            f" loading distributed checkpoint from {folder} at iteration {first - 1}",
            f"  successfully loaded checkpoint from {folder} [ t 1/{self.job.tp}, p "
            f"1/{self.job.pp} ] at iteration {first - 1}",
        ]

    def dated(self, rank: int, time_ns: int, label: str) -> str:
        return f"[{label}] datetime: {microseconds(self.of_rank(rank, time_ns))} "

    def starting(self, rank: int, time_ns: int) -> list[str]:
        return [
            self.dated(
                rank,
                time_ns,
                "after model, optimizer, and learning rate scheduler are built",
            ),
            "done with setup ...",
            "training ...",
            self.dated(rank, time_ns, "before the start of training step"),
        ]

    def saving(self, rank: int, time_ns: int, iteration: int) -> list[str]:
        folder = f"/ckpt/{self.job.user}/run"
        return [
            f"{self.stamp(rank, time_ns)} saving checkpoint at iteration {iteration:7d} to "
            f"{folder} in torch_dist format".lstrip()
        ]

    def saved(self, rank: int, time_ns: int, iteration: int, length_ms: float) -> list[str]:
        folder = f"/ckpt/{self.job.user}/run"
        return [
            f" {self.stamp(rank, time_ns)} successfully saved checkpoint from iteration "
            f"{iteration:7d} to {folder}",
            "(min, max) time across ranks (ms):",
            f"    save-checkpoint ................................: ({length_ms * 0.99:.2f}, "
            f"{length_ms:.2f})",
        ]

    def evaluated(self, rank: int, time_ns: int, iteration: int, loss: float) -> list[str]:
        text = (
            f" validation loss at iteration {iteration} | lm loss value: {loss:.6E} | lm loss PPL: "
            f"{min(2.718281828**loss, 1e9):.6E} | "
        )
        return ["-" * len(text), text, "-" * len(text)]

    def finishing(self, rank: int, time_ns: int) -> list[str]:
        return [self.dated(rank, time_ns, "after training is done")]


class Megatron03(Megatron):
    """Megatron-LM core 0.3: no times."""

    version: ClassVar[str] = "0.3"

    def stamp(self, rank: int, time_ns: int) -> str:
        return ""
