"""Taking one line apart: who printed it, when, how severe it is, and what it says.

The prefix of its stream comes off first (:mod:`llmlog.prefixes`), then the head of the tool
that printed it (:mod:`llmlog.prefixes`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from llmlog.learning import learned
from llmlog.names import names_node
from llmlog.prefixes import BEGINNINGS, HEADS, Habit, Origin, split

_FACILITY = re.compile(r"(?:kern|user|daemon|syslog|auth\w*) *:\w+ *: ?")
_UPTIME = re.compile(r"\[ *\d+\.\d+\] ?")


class Record(NamedTuple):
    """A line without its prefixes.

    Attributes
    ----------
    origin : who printed it, by the prefix of the stream.
    local, rank : of the rank within the node, and global; None if the line does not say so.
    host : the machine that the tool itself names.
    tool : who printed it; empty if no head tells, as in lines that continue others.
    level : ``I``, ``W``, ``E`` or ``F``; empty if unknown.
    time : as printed; the outermost.
    text : the rest.
    pid : of the process, if the line names it as its own.
    """

    origin: Origin
    local: int | None
    rank: int | None
    host: str | None
    tool: str
    level: str
    time: str
    text: str
    pid: int | None = None


class Lines:
    """Takes apart the lines of one stream, whose prefix it learns from the first ones."""

    def __init__(self, first: Iterable[str] = (), habit: Habit | None = None) -> None:
        self.habit: Habit = habit or learned(first)

    def parse(self, text: str) -> Record:
        """The parts of one line."""
        origin, text = split(text, self.habit)
        if origin.ident:
            return _of_program(origin, text)
        if match := _FACILITY.match(text):  # dmesg -x
            text = text[match.end() :]
        for tool, pattern in HEADS if text[:1] in BEGINNINGS else ():
            if match := pattern.match(text):
                return _headed(origin, tool, match, text[match.end() :])
        level = origin.level[:1]
        return Record(
            origin, origin.local, origin.rank, None, "", level, origin.time, text, origin.pid
        )


def _headed(origin: Origin, tool: str, match: re.Match[str], text: str) -> Record:
    found = match.groupdict()
    pid = int(found["pid"]) if found.get("pid") else origin.pid
    local = int(found["local"]) if found.get("local") else origin.local
    named = found.get("level") or found.get("plain") or origin.level
    level, time = named[:1].upper(), origin.time or found.get("time") or ""
    host = found.get("host")
    host = host if host and names_node(host) else None
    return Record(origin, local, origin.rank, host, tool, level, time, text, pid)


def _of_program(origin: Origin, text: str) -> Record:
    """A line of syslog: its program stands in the prefix."""
    tool = {"kernel": "kernel", "srun": "slurm", "slurmstepd": "slurm", "slurmd": "slurm"}.get(
        origin.ident, ""
    )
    if tool == "kernel" and (match := _UPTIME.match(text)):
        text = text[match.end() :]
    level = "E" if tool == "slurm" and text.startswith("error") else ""
    return Record(
        origin, origin.local, origin.rank, None, tool, level, origin.time, text, origin.pid
    )


_MASKS = (
    (re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b"), "<hex>"),
    (re.compile(r"(?:/[\w.+-]+){2,}/?"), "<path>"),
    (re.compile(r"\d+(?:\.\d+)*"), "<n>"),
)


def masked(text: str) -> str:
    """``text`` with marks for paths, hexadecimal and other numbers.

    >>> masked("read /data/a/b.idx at 0x7f2a in 3.5 s")
    'read <path> at <hex> in <n> s'
    """
    for pattern, mark in _MASKS:
        text = pattern.sub(mark, text)
    return text
