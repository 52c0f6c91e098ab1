"""Output of programs that print the counters of one port, again and again.

``perfquery -x`` (InfiniBand), ``ethtool -S`` and lists of ``name: value`` or ``name value`` are
read. The time of each answer is a line of its own before it, as ``date +%s.%N`` or
``date --iso-8601=ns`` prints it. A line ``eth0:`` or a head of perfquery names the port; without
one, the file is called by it. The counters of perfquery without ``-x`` have 32 bits and stop at
their highest value, so they are refused.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from llmprism.counters.names import meaning_of
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.samples import Samples
from llmprism.counters.readings import Readings
from llmprism.ingest.sources import Source
from prism_common.errors import Problem, UserError

NAME = "output of perfquery or ethtool"
LONGEST_LINE = 1 << 12
_HEAD = re.compile(
    r"# Port (extended )?counters: Lid (\d{1,9})(?:[^p]*)port (\d{1,9})", re.IGNORECASE
)
_FIELD = re.compile(r"([A-Za-z][\w.-]*?)\s*(?::[.\s]*|\s*=\s*|\s+)(\d{1,20})")
_PORT = re.compile(r"(?:NIC statistics for )?([\w.@/-]+):$")
_EPOCH = re.compile(r"\d{9,10}(\.\d{1,12})?$")
_HOW = "while sleep 1; do date +%s.%N; perfquery -x LID PORT; done"


def knows(_path: Path, head: bytes) -> bool:
    """Whether this is output of such a program: perfquery, or lines of counters that are known."""
    if b"counters: Lid" in head:
        return True
    lines = [line.strip() for line in head.decode("utf-8", errors="replace").split("\n")[:400]]
    fields = [found[1] for line in lines if (found := _FIELD.fullmatch(line))]
    return len(fields) > 1 and any(meaning_of(name) for name in fields)


def read(path: Path, options: Options) -> Readings:
    """Read one file.

    Raises
    ------
    UserError : an answer has no time before it, or counters of 32 bits.
    """
    samples = Samples(options)
    labels: dict[str, str] = {"port": path.name.partition(".")[0]}
    time_ns: int | None = None
    with Source(path).text() as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE):
            number, line = number + 1, line.strip()
            if moment := _moment(line):
                time_ns = moment
            elif head := _HEAD.match(line):
                _check(head, f"{path}:{number}")
                labels = {"port": f"lid{head[2]}/{head[3]}"}
            elif found := _FIELD.fullmatch(line):
                if time_ns is None:
                    where = f"{path}:{number}"
                    raise UserError(
                        Problem("no time before this answer", where, f"write one: {_HOW}")
                    )
                samples.add(labels, found[1], time_ns, found[2])
            elif named := _PORT.fullmatch(line):
                labels = {"port": named[1]}
            elif line and not line.startswith(("#", "CounterSelect", "NIC statistics")):
                samples.counts["lines that are no counter"] += 1
    return samples.readings(str(path))


def _check(head: re.Match[str], where: str) -> None:
    if not head[1]:
        what = "counters of 32 bits, which stop at 4,294,967,295"
        raise UserError(Problem(what, where, "ask for those of 64 bits: perfquery -x"))


def _moment(line: str) -> int | None:
    """The time of a line that has nothing else, in ns."""
    if _EPOCH.match(line):
        seconds, _, part = line.partition(".")
        return int(seconds) * 10**9 + int(part.ljust(9, "0")[:9] or 0)
    if not re.match(r"\d{4}-\d\d-\d\d[T ]", line):
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r"[.,](\d{6})\d*", r".\1", line))
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000
