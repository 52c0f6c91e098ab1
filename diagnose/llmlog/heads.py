"""What a tool puts before its own lines: its *head*, which tells the tool, the time and the level.

PyTorch's lines of C++ and of Python, DeepSpeed, NCCL and RCCL, Slurm, XLA, nanotron, the kernel
(as ``dmesg`` prints it with any option), Megatron-LM, and any program that logs with a time and
a level."""

from __future__ import annotations

import re
from string import ascii_letters, digits

from llmlog.prefixes import LEVEL, TIME

HEADS = (
    ("c10d", re.compile(r"\[(?P<level>[IWEF])(?:(?P<time>\d{3,4} [\d:.]+))? \S+\.cpp:\d+\] ?")),
    ("agent", re.compile(r"(?P<level>[IWEF])(?P<time>\d{4} [\d:.]+) +\d+ \S+:\d+\] ?")),
    (
        "agent",
        re.compile(r"\[(?P<time>[\d-]{10} [\d:,]+)\] torch\.[\w.]+: \[(?P<level>[A-Z])[A-Z]+\] ?"),
    ),
    ("agent", re.compile(r"(?P<level>[DIWEC])[A-Z]+:torch\.[\w.]+: ?")),
    (
        "deepspeed",
        re.compile(
            r"\[(?P<time>[\d-]{10} [\d:,]+)\] \[(?P<level>[A-Z])\w+\] \[[^]\s@]+:\d+[^]\s]*\] ?"
        ),
    ),
    (
        "nccl",
        re.compile(
            r"(?:\[(?P<time>[\d-]{10} [\d:]+)\] )?"
            r"(?:(?P<host>[\w.-]{1,255})(?::(?P<pid>\d+):\d+)? ?)?"
            r"\[(?P<local>\d+)\] (?:\S+:\d+ (?:\(\w+\) )?)?NCCL (?P<level>[IW])\w+ ?"
        ),
    ),
    ("ucx", re.compile(r"\[(?P<host>[\w.-]+):(?P<pid>\d+):\d+:\d+\] +\S+:\d+ +")),
    ("slurm", re.compile(r"(?:srun|slurmstepd|slurmd|sbatch|salloc): (?=(?P<level>e?))")),
    ("xla", re.compile(r"(?P<time>[\d-]{10} [\d:.]+): (?P<level>[IWEF]) \S+:\d+\] ?")),
    (
        "nanotron",
        re.compile(
            r"(?P<time>\d\d/\d\d/\d{4} [\d:]{8}) \[(?P<level>[A-Z])[A-Z]+(?:\|\w+=\d+)*"
            r"(?:\|(?P<host>[A-Za-z][\w.-]*))?\]: "
        ),
    ),
    ("kernel", re.compile(r"(?:<\d+>)?\[ *(?P<time>\d+\.\d{6})\](?:\[ *[TC]\d+\])? ")),
    ("kernel", re.compile(r"\[(?P<time>(?:[A-Z][a-z]{2} ){2}[ \d]\d [\d:]{8} \d{4})\] ")),
    ("kernel", re.compile(r"(?P<time>[\d-]{10}T[\d:]{8},\d{6}[+-]\d\d:\d\d) ")),
    ("kernel", re.compile(r"\d+,\d+,(?P<time>\d+),[-c+](?:,[^;]*)?;")),
    ("kernel", re.compile(r"\[(?P<time>[A-Z][a-z]{2}\d\d? [\d:]{5}| +\+?\d+\.\d{6})\] ")),
    ("megatron", re.compile(r" ?(?:\[(?P<time>[\d-]{10} [\d:.]+)\])? ?(?=iteration +\d+/)")),
    (
        "program",
        re.compile(
            rf"(?:\[\w+\] ?)?\[?(?P<time>{TIME})\]?(?:[\s|,:-]+\[?[\w.-]+\]?)??[\s|:\[-]+"
            rf"(?P<level>{LEVEL})\b[\]\s|:-]*"
        ),
    ),
    ("program", re.compile(rf"\[?(?P<time>{TIME})\]? *(?=(?P<level>[IWE]?))")),
    ("program", re.compile(rf"(?:(?P<level>{LEVEL}):[\w.]+:|(?=(?P<plain>{LEVEL})(?::| - )))")),
)
BEGINNINGS = frozenset("[<" + digits + ascii_letters + " ")
"""Characters with which a head can begin."""
