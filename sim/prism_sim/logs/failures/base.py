"""The base of all failure kinds.

A kind says what it is and how often it was published, and writes the lines of the faulty part.
``spread`` then writes what follows from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import FAILED, End, abort, ranks_end
from prism_sim.logs.text import SECOND_NS
from prism_sim.logs.tools.python import PACKAGES, Frame

Category = Literal["hardware", "user", "framework", "platform"]
Stage = Literal["launch", "crash", "hang", "slow"]

ACME = "Acme, Table 3"
LLAMA = "Llama 3, Table 5"
BYTEROBUST = "ByteRobust, Tables 1 and 2"
BLOOM = "BLOOM, chronicles"
UNPUBLISHED = "no published count"

_SOURCES = "/home/{user}/src"
_SCRIPT = f"{_SOURCES}/{{script}}"
_MEGATRON = "/home/{user}/Megatron-LM/megatron"
_FRAMES: dict[tuple[str, str], tuple[tuple[str, int, str, str], ...]] = {
    ("megatron", "launch"): (
        (_SCRIPT, 248, "<module>", "pretrain("),
        (f"{_MEGATRON}/training/training.py", 613, "pretrain", "setup_model_and_optimizer("),
    ),
    ("megatron", "iteration"): (
        (_SCRIPT, 248, "<module>", "pretrain("),
        (f"{_MEGATRON}/training/training.py", 731, "pretrain", "iteration = train("),
        (f"{_MEGATRON}/training/training.py", 1742, "train", "train_step(forward_step_func,"),
        (
            f"{_MEGATRON}/core/pipeline_parallel/schedules.py",
            468,
            "forward_backward_no_pipelining",
            "output_tensor, num_tokens = forward_step(",
        ),
    ),
    ("megatron", "evaluation"): (
        (_SCRIPT, 248, "<module>", "pretrain("),
        (f"{_MEGATRON}/training/training.py", 2103, "evaluate", "loss_dicts = forward_backward("),
    ),
    ("megatron", "checkpoint"): (
        (_SCRIPT, 248, "<module>", "pretrain("),
        (f"{_MEGATRON}/training/checkpointing.py", 487, "save_checkpoint", "save("),
    ),
    ("deepspeed", "launch"): (
        (_SCRIPT, 433, "<module>", "main()"),
        (_SCRIPT, 301, "main", "engine, _, _, _ = deepspeed.initialize("),
    ),
    ("deepspeed", "iteration"): (
        (_SCRIPT, 433, "<module>", "main()"),
        (_SCRIPT, 377, "main", "loss = engine(batch)"),
        (
            f"{PACKAGES}/deepspeed/runtime/engine.py",
            1899,
            "forward",
            "loss = self.module(*inputs, **kwargs)",
        ),
    ),
    ("deepspeed", "evaluation"): (
        (_SCRIPT, 433, "<module>", "main()"),
        (_SCRIPT, 409, "evaluate", "loss = engine(batch)"),
    ),
    ("deepspeed", "checkpoint"): (
        (_SCRIPT, 433, "<module>", "main()"),
        (_SCRIPT, 391, "main", "engine.save_checkpoint(path)"),
    ),
}
_SCRIPTS = {"megatron": "pretrain_gpt.py", "deepspeed": "train.py"}


class FailureKind(ABC):
    """One cause of failures.

    Attributes
    ----------
    name : its name in the truth.
    about : the cause, in one sentence.
    symptom : the name that it shares with other causes of the same lines.
    category, stage : whose fault it is, and how the job fails.
    count, source : its published number of failures, and where.
    ratio : its published part of the failures with this symptom, if there is one.
    faults : kinds of faults of the simulation that may show themselves so.
    phases : what the job may do when it fails.
    launched : the part of the launch after which it fails, for stage launch.
    repeats_as : the kind as which the same part may fail the next job, if any.
    held_out : whether only the exam set has it.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    symptom: ClassVar[str]
    category: ClassVar[Category]
    stage: ClassVar[Stage] = "crash"
    count: ClassVar[float]
    source: ClassVar[str]
    ratio: ClassVar[float | None] = None
    faults: ClassVar[frozenset[str]] = frozenset()
    phases: ClassVar[tuple[str, ...]] = ("iteration",)
    launched: ClassVar[float] = 0.5
    repeats_as: ClassVar[str | None] = None
    held_out: ClassVar[bool] = False

    @abstractmethod
    def unfold(self, scene: Scene) -> None:
        """Write what the failure lets all programs print."""


def frames(scene: Scene, *inner: Frame) -> list[Frame]:
    """The calls from the script to the phase of the scene, and ``inner`` ones below them."""
    framework = scene.job.framework
    names = {"user": scene.job.user, "script": _SCRIPTS[framework]}
    outer = [
        Frame(file.format(**names), line, function, code)
        for file, line, function, code in _FRAMES[framework, scene.phase]
    ]
    return [*outer, *inner]


def raises(
    scene: Scene, rank: int, event: str, error: str, *inner: Frame, code: int = FAILED
) -> End:
    """``rank`` ends with an uncaught exception, a little after the fault."""
    at_ns = scene.when_ns + scene.seconds(0.001, 0.2)
    grouped = scene.phase != "launch" or scene.when_ns > scene.job.times.begin_ns + 20 * SECOND_NS
    python = scene.tools.python
    output = python.traceback(rank, event, frames(scene, *inner), error, grouped=grouped)
    scene.rank_writes(rank, at_ns, output, "indicator")
    end = End(at_ns + scene.seconds(0.3, 2.5), code)
    scene.end_rank(rank, end.time_ns)
    return end


def cuda_fails(scene: Scene, rank: int, error: str) -> End:
    """A call of CUDA fails on ``rank``: an exception, then the watchdog's; the process aborts."""
    text = (
        f"CUDA error: {error}\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the "
        "stacktrace below might be incorrect.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    )
    at_ns = scene.when_ns + scene.seconds(0.001, 0.2)
    output = scene.tools.python.traceback(
        rank, "cuda_error", frames(scene), f"RuntimeError: {text}"
    )
    scene.rank_writes(rank, at_ns, output, "indicator")
    return abort(scene, rank, at_ns + scene.seconds(0.1, 2.0), text, "indicator")


def called(file: str, line: int, function: str, code: str) -> Frame:
    """A call in an installed package."""
    return Frame(f"{PACKAGES}/{file}", line, function, code)


def script(file: str, line: int, function: str, code: str) -> Frame:
    """A call in the user's own code."""
    return Frame(f"{_SOURCES}/{file}", line, function, code)


class Raises(FailureKind):
    """A kind that is one exception of Python, in one rank or in all (``everywhere``).

    Attributes
    ----------
    text : the exception as Python prints it; it may name ``{user}``.
    call : the innermost call.
    """

    everywhere: ClassVar[bool] = False
    text: ClassVar[str]
    call: ClassVar[Frame]

    def message(self, scene: Scene) -> str:
        """The exception as Python prints it."""
        return self.text.format(user=scene.job.user)

    def unfold(self, scene: Scene) -> None:
        text = self.message(scene)
        inner = self.call._replace(file=self.call.file.format(user=scene.job.user))
        if self.everywhere:
            scene.placeless()
        ranks = range(scene.job.ranks) if self.everywhere else scene.ranks
        ranks_end(scene, {rank: raises(scene, rank, self.symptom, text, inner) for rank in ranks})


class RaisesAtLaunch(Raises):
    """An exception of all ranks while the job is launched."""

    everywhere = True
    stage = "launch"
    phases = ("launch",)
