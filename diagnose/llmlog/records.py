"""Taking one line apart: who printed it, when, how severe it is, and what it says.

Formats of prefixes: ``srun --label`` (``3: ``), torchrun's ``--tee`` (``[default3]:``), PyTorch's
``[rank11]:`` and its lines of C++ and Python, DeepSpeed, Megatron-LM, NCCL, Slurm, the kernel.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LABEL = re.compile(r"(\d+): ?(.*)", re.DOTALL)
_LOCAL = re.compile(r"\[(?!rank\d)[a-z_]+(\d+)\]:(.*)", re.DOTALL)
_RANK = re.compile(r"\[rank(\d+)\]:(?: (?!\s*\[)|(?=\[))(.*)", re.DOTALL)
_HEADS = (
    ("c10d", re.compile(r"\[(?P<level>[IWEF])(?:(?P<time>\d{3,4} [\d:.]+))? \S+\.cpp:\d+\] ?")),
    ("agent", re.compile(r"(?P<level>[IWEF])(?P<time>\d{4} [\d:.]+) \d+ \S+:\d+\] ?")),
    (
        "agent",
        re.compile(r"\[(?P<time>[\d-]{10} [\d:,]+)\] torch\.[\w.]+: \[(?P<level>[A-Z])[A-Z]+\] ?"),
    ),
    ("deepspeed", re.compile(r"\[(?P<time>[\d-]{10} [\d:,]+)\] \[(?P<level>[A-Z])\w+\] \[\S+\] ?")),
    (
        "nccl",
        re.compile(
            r"(?:\[(?P<time>[\d-]{10} [\d:]+)\] )?(?P<host>[\w.-]{1,255}):(?P<pid>\d+):\d+ "
            r"\[(?P<local>\d+)\] (?:\S+:\d+ (?:\(\w+\) )?)?NCCL (?P<level>[IW])\w+ ?"
        ),
    ),
    ("slurm", re.compile(r"(?:srun|slurmstepd): (?=(?P<level>e?))")),
    ("kernel", re.compile(r"\[ *(?P<time>\d+\.\d{6})\] ")),
    ("kernel", re.compile(r"(?P<time>[A-Z][a-z]{2} [ \d]\d [\d:]{8}|[\d-]{10}T\S+) \S+ kernel: ")),
    ("megatron", re.compile(r" ?(?:\[(?P<time>[\d-]{10} [\d:.]+)\])? ?(?=iteration +\d+/)")),
    ("program", re.compile(r"\[?(?P<time>[\d-]{10} [\d:.,]+)\]? *(?=(?P<level>[IWE]?))")),
)


class Record(NamedTuple):
    """A line without its prefixes.

    Attributes
    ----------
    number, local, rank : of the node within the job, of the rank within the node, and global;
        None if the line does not say so.
    tool : who printed it; empty if no prefix tells, as in lines that continue others.
    level : ``I``, ``W``, ``E`` or ``F``; empty if unknown.
    time : as printed.
    text : the rest.
    pid : of the process, if the line names it as its own.
    """

    number: int | None
    local: int | None
    rank: int | None
    tool: str
    level: str
    time: str
    text: str
    pid: int | None = None


def parse(text: str, labelled: bool) -> Record:
    """Take a line apart; ``labelled`` is whether ``3: `` may name its node."""
    number = local = rank = None
    if labelled and (match := _LABEL.fullmatch(text)):
        number, text = int(match[1]), match[2]
    if match := _LOCAL.fullmatch(text):
        local, text = int(match[1]), match[2]
    if match := _RANK.fullmatch(text):
        rank, text = int(match[1]), match[2]
    for tool, pattern in _HEADS:
        if match := pattern.match(text):
            found = match.groupdict()
            pid = int(found["pid"]) if found.get("pid") else None
            local = int(found["local"]) if found.get("local") else local
            level, time = (found.get("level") or "").upper(), found.get("time") or ""
            return Record(number, local, rank, tool, level, time, text[match.end() :], pid)
    return Record(number, local, rank, "", "", "", text)


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
