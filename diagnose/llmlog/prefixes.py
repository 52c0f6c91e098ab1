"""What launchers and collectors put before a line: who printed it, and when it was collected.

A prefix is a row of *layers*: a time, a pod, a task, a host, a role with a local rank. Most are
recognised by themselves (:data:`_LAYERS`, :func:`_unpacked`). The others could be text as well
(``3: ``, ``gpu-a1: ``, ``[3] ``): :mod:`llmlog.learning` finds from the lines of a stream which
of them it has.

Behind the prefix, a tool has its own *head* (:data:`HEADS`), which tells the tool, the time and the
level: PyTorch's lines of C++ and of Python, DeepSpeed, NCCL and RCCL, Slurm, XLA, nanotron, the
kernel (as ``dmesg`` prints it), Megatron-LM, and any program that logs with a time and a level.

Sources: open-mpi/ompi and openpmix/prrte (``--tag-output``), ray-project/ray, kubernetes
(kubectl, CRI), fluent/fluentd, moby/moby (json-file), SchedMD/slurm (``srun --label``),
chaos/pdsh, RFC 3164, RFC 5424, torch/distributed/run.py (``--tee``)."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field, replace
from importlib.resources import files
from string import ascii_letters, digits
from typing import Any

from llmlog.names import names_node

TIME = (
    r"(?:\d{4}[-/]\d\d[-/]\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?"
    r"|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)"
)
"""A time that has a date, in any of the usual forms."""
LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_ZONED = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)"
_HOST = rf"(?P<host>(?!{LEVEL}\b)[\w.:-]+)"
_WORDS = {"<<HOST>>": _HOST, "<<TIME>>": TIME, "<<ZONED>>": _ZONED, "<<LEVEL>>": LEVEL}


def _pattern(text: str) -> re.Pattern[str]:
    for word, meant in _WORDS.items():
        text = text.replace(word, meant)
    return re.compile(text)


_ROWS = tomllib.loads((files("llmlog.catalogue") / "prefixes.toml").read_text(encoding="utf-8"))
_LAYERS = tuple(map(_pattern, _ROWS["layers"]))
HEADS = tuple((str(row["tool"]), _pattern(row["pattern"])) for row in _ROWS["heads"])
_TASK_BEGINS = frozenset(" 0123456789")
_BEGINNINGS = _TASK_BEGINS | frozenset("[(<ABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""Characters with which a layer can begin."""
_TASK = re.compile(r" *(\d+): ?")
_ROLE = re.compile(r"\[(?P<role>[a-z_]+?)(?P<local>\d+)\]:")
_RANK = re.compile(r"\[rank(\d+)\]:(?: (?!\s*\[)|(?=\[))?")
_REPEATED = re.compile(r" \[repeated \d+x across cluster\].*$")
_POD = re.compile(r"containers\.([\w.-]+?)_")
_MESSAGES = ("log", "message", "msg", "MESSAGE", "textPayload", "line", "text", "@message")
_TIMES = ("time", "timestamp", "@timestamp", "ts", "date", "_SOURCE_REALTIME_TIMESTAMP")
_HOSTS = (
    "pod_name", "pod", "host", "hostname", "node", "_HOSTNAME", "HOSTNAME", "node_name", "nodeName",
)  # fmt: skip
_INSIDE = ("kubernetes", "resource", "labels", "stream_labels", "fields")
ANCHOR = re.compile(
    r"Traceback \(most recent call last\)|  File \"|[\w.]+(?:Error|Exception)\b|\[[a-z_]+\d+\]:"
    rf"|[\w.-]+:\d+:\d+ \[\d+\] |\s*(?:\[{TIME}\])? *iteration:? +\d+ ?/|NVRM: |srun: |slurmstepd: "
    rf"|\[?\w*\]? ?\[?{TIME}|[IWEF]\d{{4}} \d\d:"
    rf"|\{{'\w*loss|terminate called|frame #\d|{LEVEL}:[\w.]+:"
    r"|\[[IWEF](?:\d{3,4} [\d:.]+)? \S+\.cpp:\d+\]|Memory access fault"
)
"""Beginnings of lines that tools print: what stands before one of them is a prefix."""


@dataclass(frozen=True)
class Origin:
    """Who printed a line, as far as its prefix says.

    Attributes
    ----------
    host : of the machine, pod or address.
    task : number of a process that a launcher started, which is a rank or one process a node.
    rank, local : global rank, and the rank within its node.
    pid : of the process.
    time : the outermost, as printed.
    ident : the program, as syslog names it.
    source : a name that tells nothing but which lines belong together.
    level : as the learned prefix has it, such as ``ERROR``.
    """

    host: str | None = None
    task: int | None = None
    rank: int | None = None
    local: int | None = None
    pid: int | None = None
    time: str = ""
    ident: str = ""
    source: str = ""
    level: str = ""

    @property
    def stream(self) -> str:
        """What tells this process from others that print into the same file; empty if nothing."""
        if self.task is not None and self.local is None and self.rank is None:
            return f"task {self.task}"
        if self.rank is not None:
            return f"rank {self.rank}"
        return self.source if self.pid is None else f"pid {self.pid}"


@dataclass
class Habit:
    """Which layers a stream has that could be text elsewhere.

    Attributes
    ----------
    tasks : lines begin with the number of their task (``3: ``).
    templates : learned patterns of other prefixes.
    nested : a role that is called rank stands before PyTorch's own ``[rank13]:``.
    """

    tasks: bool = False
    templates: list[re.Pattern[str]] = field(default_factory=list)
    nested: bool = False


def split(text: str, habit: Habit) -> tuple[Origin, str]:
    """The origin of a line, and the line without its prefix."""
    origin, before = Origin(), None
    while text != before:
        before = text
        origin, text = _peeled(text, origin, habit)
    return _ranked(text, origin, habit)


def _peeled(text: str, origin: Origin, habit: Habit) -> tuple[Origin, str]:
    """One layer less, if there is one."""
    if text.startswith("{") and (unpacked := _unpacked(text, origin)):
        return unpacked
    for pattern in habit.templates:
        if match := pattern.match(text):
            return _joined(origin, match), text[match.end() :]
    for pattern in _LAYERS if text[:1] in _BEGINNINGS else ():
        if match := pattern.match(text):
            rest = text[match.end() :]
            if "pid" in match.re.groupindex:
                rest = _REPEATED.sub("", rest)
            return _joined(origin, match), rest
    if text[:1] not in _TASK_BEGINS or origin.task is not None:
        return origin, text
    if match := _TASK.match(text):
        rest = text[match.end() :]
        if habit.tasks or ANCHOR.match(rest):
            return replace(origin, task=int(match[1])), rest
    return origin, text


def _joined(origin: Origin, match: re.Match[str]) -> Origin:
    """``origin`` with what a layer adds; of two times the outer one, of two hosts the inner one."""
    found: dict[str, Any] = {
        name: text for name, text in match.groupdict().items() if text is not None
    }
    if tag := found.pop("tag", None):
        pod = _POD.search(tag)
        found |= {"host": pod[1]} if pod else {}
    host = found.pop("tagged", None) or found.pop("host", None)
    if host and names_node(host):
        found["host"] = host
    for name in ("task", "rank", "local", "pid"):
        if name in found:
            found[name] = int(found[name])
    if origin.time:
        found.pop("time", None)
    return replace(origin, **found)


def _ranked(text: str, origin: Origin, habit: Habit) -> tuple[Origin, str]:
    """Take off torchrun's role and PyTorch's rank."""
    if (match := _ROLE.match(text)) and (match["role"] != "rank" or habit.nested):
        origin, text = replace(origin, local=int(match["local"])), text[match.end() :]
        if habit.nested and match["role"] == "rank":
            text = text.removeprefix(" ") if text.startswith(" [rank") else text
    if match := _RANK.match(text):
        origin, text = replace(origin, rank=int(match[1])), text[match.end() :]
    return origin, text


def _unpacked(text: str, origin: Origin) -> tuple[Origin, str] | None:
    """The message of a JSON line of a collector, and who printed it; None if it is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    message = _first(content, _MESSAGES)
    if message is None:
        return None
    inner = [content] + [content[name] for name in _INSIDE if isinstance(content.get(name), dict)]
    inner += [each["labels"] for each in inner if isinstance(each.get("labels"), dict)]
    host = next(
        (name for each in inner if (name := _first(each, _HOSTS)) and names_node(name)), None
    )
    time = _first(content, _TIMES) or ""
    ident = content.get("SYSLOG_IDENTIFIER") or content.get("ident") or ""
    found = replace(
        origin, host=host or origin.host, time=origin.time or time, ident=str(ident) or origin.ident
    )
    return found, message.rstrip("\n")


def _first(content: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((content[name] for name in names if isinstance(content.get(name), str)), None)


BEGINNINGS = frozenset("[<" + digits + ascii_letters + " ")
"""Characters with which a head can begin."""
