"""Exceptions of Python in a rank: the calls down to the one that fails, and the error."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import FAILED, End, abort
from prism_sim.logs.text import SECOND_NS
from prism_sim.logs.tools.python import Frame

_SCRIPTS = {"megatron": "pretrain_gpt.py", "deepspeed": "train.py"}
_FAILED = (
    "CUDA error: {}\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the "
    "stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
)
Call = Sequence[Any]
"""File, line, function and code of a call."""


@cache
def catalogue() -> dict[str, list[dict[str, Any]]]:
    """The tables of ``failures.toml``."""
    return tomllib.loads(files(__package__).joinpath("failures.toml").read_text(encoding="utf-8"))


def _frames(scene: Scene, call: Call | None) -> list[Frame]:
    """The calls from the script to the phase of the scene, and the innermost one."""
    framework, phase = scene.job.framework, scene.phase
    outer: Iterator[Call] = (
        call
        for row in catalogue()["frames"]
        if (row["framework"], row["phase"]) == (framework, phase)
        for call in row["calls"]
    )
    names = {"user": scene.job.user, "script": _SCRIPTS[framework]}
    calls = [*outer, *([call] if call else [])]
    return [
        Frame(file.format(**names), line, function, code) for file, line, function, code in calls
    ]


def raises(scene: Scene, rank: int, event: str, error: str, call: Call | None = None) -> End:
    """``rank`` ends with an uncaught exception, a little after the fault."""
    at_ns = scene.when_ns + scene.seconds(0.001, 0.2)
    grouped = scene.phase != "launch" or scene.when_ns > scene.job.times.begin_ns + 20 * SECOND_NS
    python = scene.tools.python
    output = python.traceback(rank, event, _frames(scene, call), error, grouped=grouped)
    scene.rank_writes(rank, at_ns, output, "indicator")
    end = End(at_ns + scene.seconds(0.3, 2.5), FAILED)
    scene.end_rank(rank, end.time_ns)
    return end


def cuda_fails(scene: Scene, rank: int, error: str) -> End:
    """A call of CUDA fails on ``rank``: an exception, then the watchdog's; the process aborts."""
    text = _FAILED.format(error)
    at_ns = scene.when_ns + scene.seconds(0.001, 0.2)
    output = scene.tools.python.traceback(
        rank, "cuda_error", _frames(scene, None), f"RuntimeError: {text}"
    )
    scene.rank_writes(rank, at_ns, output, "indicator")
    return abort(scene, rank, at_ns + scene.seconds(0.1, 2.0), text, "indicator")
