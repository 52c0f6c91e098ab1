"""The process between the diagnoser and a method: sets limits, and ends all that it started.

It reads a :class:`Task` as JSON from standard input, forks the process of the method, waits for
it, and writes an :class:`Ending` as JSON to standard output. It imports no library, because the
memory of the forked process is measured. If the diagnoser ends, the supervisor ends too, and
all descendants of the method with it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from llmprism.isolation import hiding, kernel
from prism_common.folders import is_regular
from prism_common.untrusted import OutsideError, parsed, real

_EVERY_S = 0.01  # between two looks at the process
_ALL_EVERY_S = 0.2  # at those that it started as well
_MOST_DESCRIPTORS = 4096
_LONGEST_REPLY, _LONGEST_ERROR = 1 << 16, 500  # bytes, characters
_UNTOUCHED_BYTES = 4 << 30  # that libraries reserve and do not use; pyarrow alone takes 1 GiB


@dataclass(frozen=True)
class Task:
    """What to run.

    Attributes
    ----------
    method : name of the method.
    folder : contains ``work``, with the flows and the topology, and the file ``empty``.
    hidden : folders and files that the method must not read.
    time_s, memory_bytes : limits; that of resident memory is checked on Linux only.
    """

    method: str
    folder: str
    hidden: list[str]
    time_s: float
    memory_bytes: int


@dataclass(frozen=True)
class Ending:
    """How the process of the method ended.

    Attributes
    ----------
    code : exit code; negative for a signal.
    limit : ``time`` or ``memory`` if that limit ended it; else empty.
    opened : hidden files that it opened.
    seconds : time from its start to its end [s].
    peak_memory_bytes : largest resident memory of the process [bytes].
    reply : what the process reported: ``error``, ``out_of_memory``, ``seconds`` of the method.
    """

    code: int
    limit: str
    opened: list[str]
    seconds: float
    peak_memory_bytes: int
    reply: dict[str, Any] = field(default_factory=dict)


def main() -> None:
    """Run the task on standard input."""
    signal.signal(signal.SIGTERM, _exit)
    with suppress(OSError):
        kernel.end_with_parent(signal.SIGTERM)
        kernel.adopt_orphans()
    ending = supervised(Task(**json.load(sys.stdin)))
    json.dump(asdict(ending), sys.stdout)


def _exit(*_: Any) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def supervised(task: Task) -> Ending:
    """Run the method of ``task`` in a process of its own, and wait for it."""
    paths, folder = [Path(path) for path in task.hidden], Path(task.folder)
    if paths:
        hiding.hide(paths, folder / "empty")
    watch = _watching(paths)
    began = time.monotonic()
    process = os.fork()
    if not process:
        _be_the_method(task, folder)
    try:
        status, usage, limit = _waited(process, began + task.time_s, task.memory_bytes)
    finally:
        _end_descendants(process)
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss [bytes]
    return Ending(
        code=os.waitstatus_to_exitcode(status),
        limit=limit,
        opened=watch.opened() if watch else [],
        seconds=time.monotonic() - began,
        peak_memory_bytes=usage.ru_maxrss * unit,
        reply=_reply(folder / "reply.json"),
    )


def _watching(paths: list[Path]) -> hiding.Watch | None:
    with suppress(OSError):
        return hiding.Watch(paths)
    return None


def _waited(
    process: int, until: float, memory_bytes: int
) -> tuple[int, resource.struct_rusage, str]:
    """Exit status and usage of a process, and the limit at which it was killed."""
    look_s = 0.0  # at the processes that it started
    while True:
        done, status, usage = os.wait4(process, os.WNOHANG)
        if done:
            return status, usage, ""
        limit = "time" if time.monotonic() > until else ""
        limit = "memory" if _resident_bytes(process) > memory_bytes else limit
        if time.monotonic() > look_s:
            look_s = time.monotonic() + _ALL_EVERY_S
            limit = "memory" if _bytes_of_all(process) > memory_bytes else limit
        if limit:
            os.kill(process, signal.SIGKILL)
            _, status, usage = os.wait4(process, 0)
            return status, usage, limit
        time.sleep(_EVERY_S)


def _resident_bytes(process: int) -> int:
    """Resident memory of a process [bytes]; 0 if the system does not tell."""
    with suppress(OSError, IndexError):
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()
    return 0


def _bytes_of_all(process: int) -> int:
    """Memory of a process and of those that it started, what they share counted once [bytes]."""
    every = [process]
    for one in every:  # grows
        every += _children(one)
    every += [one for one in _children(os.getpid()) if one != process]  # orphans
    return sum(map(_share_bytes, every)) if len(every) > 1 else 0


def _share_bytes(process: int) -> int:
    """A process's share of the memory that it uses [bytes]; 0 if the system does not tell."""
    with suppress(OSError, IndexError, ValueError):
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
        return int(text.partition("\nPss:")[2].split()[0]) * 1024
    return 0


def _end_descendants(process: int) -> None:
    """Kill the session of ``process``, and all orphans, which are children of this process now."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            for child in _children(os.getpid()):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children(process: int) -> list[int]:
    with suppress(OSError):
        paths = Path(f"/proc/{process}/task").glob("*/children")
        return [int(number) for path in paths for number in path.read_text().split()]
    return []


def _reply(path: Path) -> dict[str, Any]:
    """The report of the process, which a method can write as well; empty if it is none."""
    if not is_regular(path):
        return {}
    with suppress(OSError, OutsideError), path.open("rb") as file:
        found = parsed(file.read(_LONGEST_REPLY))
        if isinstance(found, dict):
            reply: dict[str, Any] = {"out_of_memory": found.get("out_of_memory") is True}
            if "error" in found:
                reply["error"] = str(found["error"])[:_LONGEST_ERROR]
            if "seconds" in found:
                reply["seconds"] = real(found["seconds"], 0.0, 1e9)
            return reply
    return {}


def _be_the_method(task: Task, folder: Path) -> None:
    """Become the process of the method; does not return."""
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.closerange(3, _MOST_DESCRIPTORS)  # the queue that tells what is opened
        log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(number, target)
        most = task.memory_bytes + _UNTOUCHED_BYTES
        for limit in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE):
            resource.setrlimit(limit, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):
            kernel.end_with_parent(signal.SIGKILL)
            kernel.drop_administrative_rights()
        os.chdir(folder / "work")
        with (folder / "reply.json").open("w", encoding="utf-8") as reply:
            _work(task.method, reply)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def _work(method: str, reply: IO[str]) -> None:
    from llmprism.isolation.inside import run

    json.dump(run(method), reply)
