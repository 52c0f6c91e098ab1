"""Statements of those who are not the rank: launchers, monitors, orchestrators.

A statement has a *speaker* (who prints the line), a *subject* (rank, node, process or GPU), a
*verdict* (died, lost, awaited, ...) and the time of its line. Subjects and verdicts are separate
tables (``catalogue/statements.toml``), so each verdict is read with each subject. The subject may
stand on the lines below (``ip: 10.0.0.4``, ``Rank 21 -- GPU 5 ...``) or in the block above (``Node:
gpu-k17``). What a speaker only holds possible is no verdict, and a signal that it sends is none."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from llmlog.catalogue import SUBJECTS, VERDICTS, Verdict
from llmlog.evidence import Event, Evidence
from llmlog.names import names_node

SILENT_TOOLS = ("c10d", "kernel", "nccl")
"""Tools that speak of their own process or machine: the catalogue has their lines."""
_WORDS = re.compile(
    r"(?i)abort|backoff|behind|breakdown|check|code|crash|dead|died|disconnect|down|evict|exit"
    r"|expel|fail|hang|heartbeat|hung|join|kill|lagging|launched up|lost|maintenance|memory|miss"
    r"|nodes|not re|oom|preempt|remap|remote|removed|running at|service|reason|signal|snippet|stall"
    r"|terminat|tim(?:e|ed).?out|unhea|lame|unresp|exceed|low on|received|unreach|uncorrect|waiting"
    r"|error|process name|ssh|resolve|limit|segmentation"
)
"""Words of which every statement has one."""
_HELD_POSSIBLE = re.compile(
    r"There are some potential root causes.*|\b(?:if|in case|whether|when|unless|until)\b.*"
    r"|(?:may|might|could|can) be (?:caused|due)(?:(?!\bError: ).)*|Possible (?:causes|reasons).*"
    r"|\b(?:no|0) (?:node|host|rank|worker|process)(?:e?s)? [^,.;]*",
    re.IGNORECASE | re.DOTALL,
)
_SPEAKER = re.compile(r"(?i)(?:^|(?<=: ))\[(?:global )?rank \d+\]:? ")
_SENDS = re.compile(r"(?i)\b(?:sen(?:d|t|ds|ding)|forward\w*|closing|waiting up to|will be) ")
_SIGNAL = re.compile(
    r"(?i)\bsignal:? *\(?(\d{1,2}|SIG[A-Z]+|Killed|Segmentation fault|Bus error)\b"
    r"|\b(SIG(?:KILL|SEGV|BUS|TERM|ABRT|FPE|ILL))\b|\bstatus=(\d+)/[A-Z]"
    r"|(?:Signal|error|task \d+): (Segmentation fault|Bus error|Floating point exception|Killed)"
)
_CODE = re.compile(
    r"(?i)\b(?:exit[ _-]?(?:code|status)|exitcode|return[ _]code|errorcode|status (?:code|of)|code)"
    r"[\"']?\s*[:=]?\s*\(?(-?\d+)\b"
)
_ENDED_BY_OTHERS = ("15", "SIGTERM", "-15", "143", "241")
_KEY = re.compile(
    r"(?i)^\s*[-|#=*]*\s*[{\"']{0,2}(?:env|(?:global |world )?rank|(?:peer )?(?:node|host|machine"
    r"|instance)(?: ?name| ip)?|ip(?: address)?|pid|process name|exit ?_?code|signal|reason|status"
    r"|errorcode|pod|address|with errorcode)\b[\"']?\s*[:={ ]\s*\S|^\s*/job:|^\d{1,6}: \["
)
_OF_SPEAKER = re.compile(r"(?i)\b(?:HNP|local|this|own|head|master)\b")
"""Words before a subject that is the speaker itself."""
_BLOCK = re.compile(
    r"^(?:.* {2})?(?:Name|Node|Node[Nn]ame|Host|Hostname|Rank): +\S+$"
    r"|^\s*\"\w*(?:[Nn]ode|[Hh]ost)(?:[Nn]ame)?\"\s*:\s*\"[^\s\"]+\",?$"
)
_WORDS_OF_KEY = re.compile(r"(?<=[a-z])(?=[A-Z][A-Za-z]*\"\s*:)")
_EMPTY = re.compile(r"^[\s|+=#_*-]*$")
_ROW = re.compile(
    r"^\s*(?:\S+\s+)?\|?(?P<job>\d{2,})(?:_\d+)?(?:\.\w+)?\+?[|\s].*\b(?:COMPLETED|FAILED|TIMEOUT"
    r"|CANCELLED\S*|NODE_FAIL|OUT_OF_ME\w*|PREEMPTED|RUNNING|PENDING)\b"
    r"|^(?:\S+ +)?(?P<pod>[a-z0-9][a-z0-9.-]*?)(?:-(?:master|worker|launcher|\d+|[a-z0-9]{5}))*"
    r" +\d+/\d+ +[A-Z]\w+ +\d+"
)
_LIST = re.compile(r"\[(\d+)[\d,-]*\]")
_PROSE = re.compile(r"[A-Za-z(][A-Za-z_ ,.:'\"/()-]{15,}")
"""Sentences between a verdict and its subject."""
_COLUMNS = re.compile(r"\S(?: {2,}|\|)(?=\S)")
_JOB = re.compile(r"(?i)\bJob(?:_?Id)?[ =:]+(\d+)\b|\bStepId=(\d+)")
_OF_JOB = ("node_lost", "cancelled", "time_limit", "job_failed", "host_memory")
_FILE_JOB = re.compile(r"slurm-(\d+)")
_OF_FAILURE = ("fault", "report", "reaction", "limit")
_LONGEST = 16
"""Lines of a statement."""
_ENDS = re.compile(r"^\S.*(?:Traceback|#\d+-\d+ \()")
_STRENGTH = {"lost": 3, "host_memory": 3, "died": 2, "failed": 1, "job_failed": 0}
"""Of verdicts that lines below may replace by a stronger one."""
VERDICT_NAMES = {verdict.name for verdict in VERDICTS}


class Statement(NamedTuple):
    """What a text says of a subject; ``fields`` name it, and how it ended."""

    verdict: Verdict
    fields: dict[str, str | None]

    @property
    def complete(self) -> bool:
        """Whether the subject that the verdict needs is named."""
        wanted = self.verdict.needs.split()
        return not wanted or any(self.fields.get(name) for name in wanted)

    @property
    def placed(self) -> bool:
        """Whether it names a rank or a node, or needs nobody."""
        return not self.verdict.needs or _ranked_or_placed(self.fields)


def read(tool: str, text: str) -> Statement | None:
    """The statement of a text of one or several lines; None if it is none."""
    if tool in SILENT_TOOLS or not _WORDS.search(text):
        return None
    text = _HELD_POSSIBLE.sub("", _WORDS_OF_KEY.sub(" ", text))
    pending: Statement | None = None
    for verdict in VERDICTS:
        match = verdict.pattern.search(text)
        if match is None:
            continue
        found = match.groupdict() | subjects(text)
        if verdict.name == "link":
            found["state"] = "down"
        if verdict.name == "died":
            found |= _end(text)
            if found.get("code") == "0" or _SENDS.search(text[: match.end()]):
                return None
        statement = Statement(verdict, found)
        if statement.complete:
            return statement
        pending = pending or statement
    return pending


def subjects(text: str) -> dict[str, str | None]:
    """Whom a text names: ``rank`` (its first), ``ranks``, ``node``, ``local``, ``pid``, ``gpu``."""
    found: dict[str, str | None] = {}
    text = _WORDS_OF_KEY.sub(" ", _SPEAKER.sub("", text))
    for pattern in SUBJECTS:
        for match in pattern.finditer(text):
            for name, value in match.groupdict().items():
                key = name.rstrip("0123456789")
                if value and key == "node":
                    value = _LIST.sub(r"\1", value)  # of several nodes, the first
                usable = value and (name == "node0" or key != "node" or _is_node(value))
                if usable and key not in found:
                    found[key] = value
    if ranks := found.get("ranks"):
        found["rank"] = ranks.split(",")[0]
    if "node" not in found and (pod := found.get("pod")) and _is_node(pod):
        found["node"] = pod
    return found


def _is_node(name: str) -> bool:
    return names_node(name) and (not name.isalpha()) and not name.isdigit()


def _end(text: str) -> dict[str, str | None]:
    """The signal and the exit code that a text names."""
    signal, code = _SIGNAL.search(text), _CODE.search(text)
    found: dict[str, str | None] = {}
    if signal:
        found["signal"] = next(name for name in signal.groups() if name)
    if code:
        found["code"] = code[1]
    return found


def group_of(statement: Statement) -> str:
    """The group of the event: a part that others ended is no cause."""
    ends = (statement.fields.get("signal"), statement.fields.get("code"))
    if statement.verdict.name == "died" and any(end in _ENDED_BY_OTHERS for end in ends if end):
        return "teardown"
    return statement.verdict.group


def continued(event: Event, text: str) -> bool:
    """Whether a line below belongs to a statement, which then has its subject or verdict."""
    if event.count >= _LONGEST or (not _EMPTY.match(text) and _ENDS.match(text)):
        return False
    if _EMPTY.match(text):
        event.count += 1
        return True
    below = read("", text)
    if not below and _PROSE.fullmatch(text) and not is_complete(event):
        event.add(text)
        return True
    if below and not _ranked_or_placed(below.fields):
        if event.kind not in _STRENGTH or below.verdict.name not in _STRENGTH:
            return False
        if _STRENGTH[below.verdict.name] > _STRENGTH[event.kind]:
            event.kind, event.group = below.verdict.name, group_of(below)
        event.fields = below.fields | _given(event.fields)
    elif text[:1] in " \t" or _KEY.match(text):
        found = {} if _OF_SPEAKER.search(text) else subjects(text)
        if _another(event, found) or (below and below.verdict.name != event.kind):
            return False
        event.fields = found | _end(text) | _given(event.fields)
    else:
        return False
    event.add(text)
    return True


def again(event: Event, text: str) -> dict[str, str | None] | None:
    """The subject of a line below, if it is another one of the same verdict; None if it is not."""
    found = subjects(text) if text[:1] in " \t" and event.kind in VERDICT_NAMES else {}
    same = _another(event, found) and read("", text) is None
    return found if same and Statement(_verdict(event.kind), found).complete else None


def is_complete(event: Event) -> bool:
    """Whether the subject that the verdict of a statement needs was named."""
    return Statement(_verdict(event.kind), event.fields).complete


def _verdict(name: str) -> Verdict:
    return next(verdict for verdict in VERDICTS if verdict.name == name)


def _given(fields: dict[str, str | None]) -> dict[str, str | None]:
    return {name: value for name, value in fields.items() if value is not None}


def _ranked_or_placed(fields: dict[str, str | None]) -> bool:
    return bool(fields.get("ranks") or fields.get("node"))


def _another(event: Event, found: dict[str, str | None]) -> bool:
    """Whether a line names another subject than the statement already has."""
    names = ("ranks", "node", "pid", "gpu")
    return any(
        found.get(name) and event.fields.get(name) not in (None, found[name]) for name in names
    )


def is_block(text: str) -> dict[str, str | None] | None:
    """The subject that a line of a block of keys names (``Node: gpu-k17/10.0.0.4``)."""
    match = _BLOCK.match(text)
    return subjects(text) if match else None


def row_of(text: str) -> str | None:
    """The job whose state a row of a table shows (``sacct``, ``kubectl get pods``)."""
    match = _ROW.match(text) if len(_COLUMNS.findall(text)) > 1 else None
    return None if match is None else match["job"] or match["pod"]


def job_in(text: str) -> str | None:
    """The number of the job that a line names."""
    match = _JOB.search(text)
    return None if match is None else match[1] or match[2]


def settle(evidence: Evidence) -> None:
    """Set aside statements about other jobs, and those that only a comparison makes one.

    A table of several jobs is no log of one. Who has launched fewest operations is awaited if two
    answers of a monitor say so, or the job failed; who has launched more only waits."""
    own = {event.job for event in evidence.events if event.kind in _OF_JOB} - {None}
    own |= {match[1] for file in evidence.job.files if (match := _FILE_JOB.search(file.name))}
    for event in evidence.events:
        other = own and event.job is not None and event.job not in own
        if other or (len(evidence.rows.get(event.file, ())) > 1 and event.row not in {None, *own}):
            event.group = "benign"
    _compare(evidence)


def _compare(evidence: Evidence) -> None:
    """Who is behind: of the answers of a monitor, the ranks with the lowest number."""
    events = [event for event in evidence.events if event.kind == "behind"]
    lowest = {
        file: min(event.numbers("operation")[0] for event in events if event.file == file)
        for file in {event.file for event in events}
    }
    named = [event for event in events if event.fields.get("ranks")]
    last = [event for event in named if event.numbers("operation")[0] == lowest[event.file]]
    same = Counter((event.fields["ranks"], event.fields["operation"]) for event in last)
    failed = any(event.group in _OF_FAILURE for event in evidence.events if event not in events)
    for event in events:
        key = (event.fields.get("ranks"), event.fields.get("operation"))
        stuck = event in last and (failed or same[key] > 1)
        event.group = "awaited" if stuck else "advice"
