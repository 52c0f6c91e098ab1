"""Learning the prefix of a stream from its first lines.

What stands before the beginning of a line that a tool is known to print (a traceback, an
iteration, a line of NCCL) is a prefix. Its *template* keeps punctuation and the words that were
seen, and lets times and numbers vary. A template counts if lines of the stream agree on it; a
label of another kind than a time says who printed the line only by what it is: a word that can
name a machine, or a number after "rank"."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from llmlog.names import looks_like_node
from llmlog.prefixes import ANCHOR, HEADS, LEVEL, TIME, Habit, split

SAMPLE, SAMPLE_BYTES = 500, 1 << 18
"""Lines and bytes of a stream that are looked at."""
_LONGEST, _WORDS = 120, 64
_NO_DIGITS = str.maketrans("", "", "0123456789")
_ALIKE = 4
"""Lines of one shape that are looked at."""
_SHARE = 0.3
"""Least share of lines with a learned prefix; two lines before known beginnings are as good."""
_STRONG = re.compile(
    r"Traceback \(most recent call last\)|  File \"[^\"]+\", line \d|\[[a-z_]+\d+\]:"
    r"|(?<![\w.:-])[\w.-]+:\d+:\d+ \[\d+\] (?:\S+ )?NCCL|NVRM: (?:Xid|GPU)"
    rf"|(?:\[{TIME}\] *|(?<![, ]) *)iteration:? +\d+ ?/ *\d+ \||\[{TIME}\] \[{LEVEL}\]"
    rf"|[IWEF]\d{{4}} \d\d:\d\d:\d\d\.\d+ "
    rf"|{LEVEL}:torch|step: +\d+ +loss|\[[IWEF](?:\d{{3,4}} [\d:.]+)? \S+\.cpp:\d+\]"
)
_PARTS = re.compile(
    rf"(?P<time>{TIME})|(?P<number>\d+(?![\w.]))|(?P<word>[A-Za-z_][\w./@-]*[\w@]|[A-Za-z_]"
    rf"|\d[\w.-]*\w)"
    r"|(?P<space> +)|(?P<sign>.)"
)
_NESTED = re.compile(r"\[rank\d+\]: ?\[rank\d+\]:")
_TASKS = re.compile(r" *\d+: ?")
_LABEL = re.compile(r"\[?(?P<label>[A-Za-z][\w.-]*|\d+)\]?(?::|\||\]| \|) ")
_RANK_WORD = re.compile(r"([A-Za-z]+(?:_rank)?)[-_]?\d+")
_NOT_LABELS = re.compile(
    rf"(?i)(?:{LEVEL}|srun|slurmstepd|\w*(?:Error|Exception|Warning)|File|note|hint|usage)"
)
_RANKS = {"rank": "rank", "r": "rank", "ranks": "rank", "localrank": "local", "local_rank": "local"}
_RANKS |= dict.fromkeys(("gpu", "device", "local"), "local") | dict.fromkeys(
    ("task", "worker", "proc", "process"), "task"
)


def learned(lines: Iterable[str]) -> Habit:
    """The habit of a stream with these first lines."""
    sample = _telling(lines)
    habit = Habit(nested=any(_NESTED.search(line) for line in sample))
    habit.tasks = _labelled(sample, habit)
    habit.templates = _templates([split(line, habit)[1] for line in sample])
    return habit


def _telling(lines: Iterable[str]) -> list[str]:
    """The first lines of each shape: more of the same tell nothing new."""
    found: list[str] = []
    shapes: Counter[str] = Counter()
    for line in lines:
        shape = line.translate(_NO_DIGITS)
        shapes[shape] += 1
        if shapes[shape] <= _ALIKE and line.strip():
            found.append(line)
    return found


def _labelled(sample: list[str], habit: Habit) -> bool:
    """Whether many lines begin with the number of a task."""
    parts = [split(line, habit) for line in sample]
    tasks = sum(origin.task is not None or bool(_TASKS.match(rest)) for origin, rest in parts)
    return len(sample) > 1 and tasks > _SHARE * len(sample)


def _templates(lines: list[str]) -> list[re.Pattern[str]]:
    """Patterns of what stands before known beginnings, the most frequent first."""
    forms: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        if (before := _before(line)) is not None:
            forms[_form(before)].append(before)
    found: list[re.Pattern[str]] = []
    for form, befores in sorted(forms.items(), key=lambda item: -len(item[1])):
        if form and len(found) < 4 and (pattern := _pattern(befores)) is not None:
            matching = sum(bool(pattern.match(line)) for line in lines)
            if len(befores) > 1 or matching > max(1, _SHARE * len(lines)):
                found.append(pattern)
    return found


def _before(line: str) -> str | None:
    """What stands before the first known beginning; None if nothing does, or it is long."""
    if any(pattern.match(line) for tool, pattern in HEADS if tool != "program"):
        return None
    match = _STRONG.search(line[: _LONGEST * 2])
    if match is None or not 0 < match.start() <= _LONGEST:
        return _label(line)
    before = line[: match.start()]
    return before if before.strip() else None


def _label(line: str) -> str | None:
    """A label before any line: a word that can name a machine, or a number in brackets."""
    match = _LABEL.match(line)
    if match is None or _NOT_LABELS.fullmatch(match["label"]):
        return None
    known = ANCHOR.match(line[match.end() :]) is not None
    return match[0] if known or looks_like_node(match["label"]) else None


def _form(before: str) -> str:
    """Its kinds of parts: prefixes of one form have one template."""
    return "".join(
        match[0] if match.lastgroup == "sign" else f"<{match.lastgroup}>"
        for match in _PARTS.finditer(before)
    )


def _pattern(befores: list[str]) -> re.Pattern[str] | None:
    """One pattern for prefixes of one form; None if its words vary as those of text do."""
    columns = list(zip(*(list(_PARTS.finditer(each)) for each in befores), strict=True))
    text, last, names = "", "", set[str]()
    for place, column in enumerate(columns, 1):
        kind, values = str(column[0].lastgroup), Counter(match[0] for match in column)
        if kind == "word" and len({_masked(value) for value in values}) > _WORDS:
            return None
        name = _name(kind, values, last)
        part = (
            min(values, key=len)
            if place == len(columns) and kind == "space"
            else _part(kind, values)
        )
        if numbered := _numbered(kind, values):
            name, part = numbered[0], numbered[1]
            text += part if name not in names else _part(kind, values)
            names.add(name)
            continue
        text += f"(?P<{name}>{part})" if name and name not in names else f"(?:{part})"
        names.add(name)
        last = column[0][0] if kind in ("word", "number") else last
    return re.compile(text)


def _numbered(kind: str, values: Counter[str]) -> tuple[str, str] | None:
    """The name and pattern of words such as ``rank3``, whose number is a rank."""
    matches = [_RANK_WORD.fullmatch(value) for value in values] if kind == "word" else []
    heads = {match[1] for match in matches if match}
    if not matches or not all(matches) or len(heads) != 1:
        return None
    head = heads.pop()
    name = _RANKS.get(head.lower())
    pattern = rf"{re.escape(head)}[-_]?(?P<{name}>\d+)"
    return (name, pattern) if name in ("rank", "local") else None


def _part(kind: str, values: Counter[str]) -> str:
    if kind == "time":
        return TIME
    if kind == "number":
        return r" *\d+"
    if kind == "space":
        return r" +"
    if kind == "word" and any(re.fullmatch(LEVEL, value) for value in values):
        return LEVEL
    if kind == "sign":
        return re.escape(next(iter(values)))
    masks = dict.fromkeys(_masked(value) for value in values)
    return "|".join(sorted(masks, key=len, reverse=True))


def _masked(word: str) -> str:
    """A pattern of words that differ in their numbers only."""
    return re.sub(r"\d+", lambda _: r"\d+", re.escape(word))


def _name(kind: str, values: Counter[str], last: str) -> str:
    """What a part says about the origin; empty if nothing."""
    if kind == "time":
        return "time"
    if kind == "number":
        return _RANKS.get(last.lower(), "" if last else "task")
    if kind != "word":
        return ""
    if any(re.fullmatch(LEVEL, value) for value in values):
        return "level"
    if all(looks_like_node(value) for value in values):
        return "host"
    return "source" if len(values) > 1 and any(value[-1].isdigit() for value in values) else ""
