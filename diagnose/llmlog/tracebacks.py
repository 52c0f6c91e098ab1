"""Joining the lines of a stack trace, of Python or C++, in any form: plain, in a frame, chained,
cut at its begin.

Of exceptions that are chained, the one that counts is the one that was not handled: after
"During handling of the above exception", the later one; before "was the direct cause of", the
earlier one, which the later one only wraps. "Exception ignored" is no fault. An agent's
exception reports what its process printed."""

from __future__ import annotations

import re

from llmlog.catalogue import REACTIONS, TIMED_OUT
from llmlog.evidence import Event

_HEAD = re.compile(r"^.{0,80}?Traceback \(most recent call last\)")
_FRAME = re.compile(r"^\s+File \"[^\"]+\", line \d+(?:, in |$)")
_ERROR = re.compile(
    r"^(?P<name>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Iteration|Killed"
    r"|Crashed))\b(?:\((?P<of>\w+)\))?"
)
_BARE = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:\(\w+\))?: *\S"
    r"|^(?:[a-z_]\w*\.)+[A-Z]\w*(?:Error|Exception):? *$"
)
_IGNORED = re.compile(r"^(?:Exception ignored |Error in atexit\._run_exitfuncs)")
_CHAIN = re.compile(
    r"^[\s|│]*(?:(?P<during>During handling of the above exception)"
    r"|The above exception was the direct cause)"
)
_ABORT = re.compile(
    r"^.{0,60}?(?:\bterminate called (?:after throwing|without an active)|\bUnhandled exception: "
    r"|^libc\+\+abi: terminating)"
)
_DEATH = re.compile(r"watchdog thread terminated with exception: ")
_BOX = re.compile(r"^\s*[│╭╰┌└┃┏┗|+❱]")
_CONTINUES = re.compile(
    r"^(?:\s|$|frame #|Additional GRPC|Exception raised from|terminate called|For debugging"
    r"|(?:CUDA|HIP) kernel errors|Compile with|nccl\w+: |Last error:|Bootstrap|See documentation"
    r"|\S+\.py: error: |socketProgress|Search for|Device-side assert|(?:Cuda|HIP) failure|= +\S"
    r"|\[ERROR\] \d{4}-)"
)
_SUMMARY = re.compile(r"^\s+(?:time|host|rank|exitcode)\s+: \S")
"""A block of torchrun's summary whose head is lost."""
_SUMMARY_ENDS = re.compile(r"^=+$")
_REPORTED = re.compile(
    r"ChildFailed|CalledProcess|Ray(?:Task|Actor)|ActorDied|WorkerCrashed|TrainingFailed"
    r"|JobSubmission|Process(?:Exited|Raised)Exception"
)
"""Exceptions of an agent about a process of its own."""
_GROUPS = {"SignalException": "teardown"}
_KINDS = {"ChildFailedError": "summary", "SignalException": "ended_by_signal"}


def begin(tool: str, level: str, text: str) -> tuple[str, str] | None:
    """Kind and group of the event that a line begins; None if it begins no stack trace."""
    if _SUMMARY.match(text):
        return "summary", "report"
    if _IGNORED.match(text):
        return "ignored", "benign"
    if tool == "c10d" and _DEATH.search(text):
        return "death", "fault"
    if _HEAD.match(text):
        return "exception", "fault"
    if _ABORT.match(text):
        return "abort", "fault"
    if _FRAME.match(text) or (_BARE.match(text) and tool != "kernel" and level in "EFC"):
        return "exception", "fault"
    return None


def begun(event: Event) -> None:
    """Name the exception of an event that begins with it."""
    if event.kind == "summary":
        event.error = "ChildFailedError"
    if match := _BARE.match(event.text) and _ERROR.match(event.text):
        _name(event, match, 0)


def continues(event: Event, tool: str, text: str) -> bool:
    """Whether a line belongs to the stack trace of ``event``, which then has it."""
    if event.error == "ChildFailedError":
        event.add(text)
        return True
    if tool:
        return False
    if chain := _CHAIN.match(text):
        event.add(text)
        event.fields["chain"] = "during" if chain["during"] else "cause"
        return True
    if _HEAD.match(text) and (
        "chain" in event.fields or event.kind == "ignored" or "Group" in text
    ):
        event.add(text)
        return True
    match = _ERROR.match(text.lstrip(" |+") if event.text.lstrip().startswith("+") else text)
    if match and event.kind in ("exception", "ignored") and not _bare_again(event, text):
        place = len(event.text) + 1
        event.add(text)
        _name(event, match, place)
        return True
    if _CONTINUES.match(text) or _BOX.match(text):
        event.add(text)
        return True
    return False


def is_complete(event: Event, text: str) -> bool:
    """Whether ``text`` is the last line of a summary of torchrun."""
    return bool(
        event.error == "ChildFailedError"
        and _SUMMARY_ENDS.match(text)
        and ("Root Cause" in event.text or _headless(event.text))
    )


def _headless(text: str) -> bool:
    """Whether a summary has blocks, but not its head."""
    return "FAILED" not in text and "exitcode" in text


def _bare_again(event: Event, text: str) -> bool:
    """Whether a line states another exception than one that was only a line itself."""
    return (
        event.stated == 0
        and bool(event.error)
        and "chain" not in event.fields
        and bool(_BARE.match(text))
    )


def _name(event: Event, match: re.Match[str], place: int) -> None:
    """The exception of a stack trace is known now; ``place`` is where its text begins."""
    chain = event.fields.pop("chain", None)
    if event.error and chain != "during":
        return
    name = match["name"].rsplit(".", 1)[-1]
    event.error, event.stated = name, place
    if event.kind == "ignored":
        return
    event.kind = _KINDS.get(name, "exception")
    event.group = "report" if _REPORTED.match(name) else _GROUPS.get(name, "fault")
    if event.kind == "ended_by_signal" and match.string.endswith(" signal: 1"):
        event.group = "report"  # a terminal that was closed: no scheduler sends it
    if TIMED_OUT.search(match.string):
        event.kind, event.group = "timeout", "reaction"


def is_reaction(event: Event) -> bool:
    """Whether the event only says that another part does not answer."""
    return event.group == "reaction" or bool(REACTIONS.search(event.statement))
