"""How far a job came: its iterations, and whether training had begun or came to its end.

Readers of trainers are data (``catalogue/progress.toml``). A progress bar (tqdm, rich) shows
many things: that of training has no description or one that says so, and of several totals the
one with most steps counts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import median
from typing import NamedTuple

from llmlog.catalogue import MARK_WORDS, MARKS, READERS
from llmlog.clocks import seconds, since_1970_ns
from prism_common.quantities import lone_times

_CONTINUED = re.compile(
    r"(?i)(?:load\w*|resum\w*) .*(?:checkpoint|training)\b.*?\b(?:iteration|step)[ :=]*(\d+)"
)
_BAR = re.compile(
    r"(?:^|[\r}\])])(?P<about>[^|%\r{}]*?)\s*\d+%\|[^|]*\|"
    r" *(?P<n>\d+)/(?P<of>\d+) \[(?P<past>[\d:]+)<"
)
_RICH = re.compile(r"^Epoch (?P<epoch>\d+)(?:/\d+)? +[━╸╺ ]+ *(?P<n>\d+)/(?P<of>\d+) ")
_TRAINING = re.compile(
    r"(?i)(?:train\w*|fine-?tun\w*|steps?|iter\w*"
    r"|epochs?)?(?:[ \[]*(?P<epoch>\d+)(?:/\d+)?\]?)?:?(?: :)?"
)
_NO_STEP = re.compile(r"(?i)\b(?:(?:error|exception|failed|overflow)\b(?!:\w+ [\d.])|nan\b)")
MOST = 1_000_000
"""Iterations that are kept; of later ones, only the highest number is known."""
_AFTER_BAR = re.compile(r"^(.*?\d+%\|[^|]*\| *[\d.]+\w?/[\d.]+\w? \[[^\]]*\])(?=\S)")
Place = tuple[str, int]
"""File and line."""


class Mark(NamedTuple):
    """A line about a pause: a ``checkpoint`` or an ``evaluation``, which begins or ends."""

    what: str
    is_end: bool
    file: str
    line: int
    time: str


def cut(text: str) -> list[str]:
    """A line; or progress bars, and what another writer printed behind them on the same line."""
    parts: list[str] = []
    while match := _AFTER_BAR.match(text) if "%|" in text else None:
        parts.append(match[1])
        text = text[match.end() :]
    return [*parts, text]


@dataclass
class Progress:
    """Completed iterations in order, and the one that the job continued from.

    Attributes
    ----------
    begun : whether a line says that training begins.
    launches : lines of each file in which a launcher starts the processes.
    beats, ends : lines that show that it goes on, without a number, and that it is at its end.
    pauses : lines about saves and evaluations.
    """

    iterations: list[Iteration] = field(default_factory=list)
    continued: int | None = None
    begun: bool = False
    beats: list[tuple[Place, str]] = field(default_factory=list)
    ends: list[Place] = field(default_factory=list)
    pauses: list[Mark] = field(default_factory=list)
    launches: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _bars: dict[int, list[Iteration]] = field(default_factory=lambda: defaultdict(list))
    _last: dict[str, int | None] = field(default_factory=dict)

    def read(
        self, text: str, file: str, line: int, time: str = "", node: str | None = None
    ) -> bool:
        """Note what ``text`` says about progress; return whether it says that training goes on."""
        bar = ("%|" in text or "━" in text) and self._bar(text, file, line, time, node)
        for reader in READERS:
            if reader.word not in text:
                continue
            if reader.general and (bar or _NO_STEP.search(text)):
                continue
            if match := reader.pattern.search(text):
                self._step(match.groupdict(), (file, line), time, node)
                return True
        return bar or self._mark(text, file, line, time)

    def _mark(self, text: str, file: str, line: int, time: str) -> bool:
        """Note a line about the phases of a job."""
        lowered = text.lower()
        if not any(word in lowered for word in MARK_WORDS):
            return False
        if match := _CONTINUED.search(text):
            self.continued, self._last[file] = int(match[1]), None
            return True
        for what, pattern in MARKS:
            if pattern.search(text):
                self.begun |= what == "begun"
                if what == "ended":
                    self.ends.append((file, line))
                elif what == "launch":
                    self.launches[file].append(line)
                elif "_" in what and len(self.pauses) < MOST:
                    pause, _, end = what.partition("_")
                    self.pauses.append(Mark(pause, end == "end", file, line, time))
                return what != "begun"
        return False

    def _step(self, found: dict[str, str | None], at: Place, time: str, node: str | None) -> None:
        number = found.get("n")
        if number is None:
            self.beats.append((at, time))
            return
        size = int(text) if (text := found.get("size")) else None
        self._add(Iteration(int(number), _length_s(found), *at, time, node, size))
        if number == found.get("of"):
            self.ends.append(at)

    def _bar(self, text: str, file: str, line: int, time: str, node: str | None) -> bool:
        """Note the last state of a bar of training."""
        match = next(reversed(list(_BAR.finditer(text))), None) or _RICH.match(text)
        if match is None:
            return False
        found = match.groupdict()
        about = _TRAINING.fullmatch((found.get("about") or "").strip())
        number, total = int(found["n"]), int(found["of"])
        if about is None or number == 0:
            return True
        epoch = found.get("epoch") or about["epoch"]
        number += int(epoch or 0) * total
        bars = self._bars[total]
        if (not bars or bars[-1].number != number) and len(bars) < MOST:
            bars.append(Iteration(number, None, file, line, time or _clock(found), node))
        return True

    def _add(self, iteration: Iteration) -> None:
        self._last[iteration.file] = iteration.number
        if len(self.iterations) < MOST:
            self.iterations.append(iteration)

    def settle(self) -> int:
        """All lines are read: find lengths, and set aside times far from all others; how many."""
        if not self.iterations and self._bars:
            total, bars = max(self._bars.items(), key=lambda item: (len(item[1]), item[0]))
            for one in bars:
                self._add(one)
            if bars[-1].number % total == 0:
                self.ends.append((bars[-1].file, bars[-1].line))
        self._bars.clear()
        times = [since_1970_ns(one.time) for one in self.iterations]
        lone = lone_times(filter(None, times))
        pairs = zip(self.iterations, times, strict=True)
        self.iterations = timed(replace(one, time="") if at in lone else one for one, at in pairs)
        before: dict[str, int] = {}
        for one in self.iterations:  # numbers that fall are those of another attempt
            if one.number < before.get(one.file, 0) - 1:
                self.launches[one.file].append(one.line)
            before[one.file] = one.number
        return sum(at in lone for at in times)

    def begin_again(self, file: str, line: int) -> None:
        """Only what comes after ``line`` of ``file`` counts there."""
        after = [one for one in self.iterations if one.file == file and one.line >= line]
        self._last[file] = after[-1].number if after else None
        if not after:
            self.begun, self.continued = False, None

    @property
    def last(self) -> int | None:
        """The last completed iteration; of several files, the highest."""
        return max((number for number in self._last.values() if number is not None), default=None)

    @property
    def next(self) -> int | None:
        """The iteration that was not completed; None if the logs do not tell."""
        if self.last is not None:
            return self.last + 1
        if not self.begun and self.continued is None:
            return None
        return 1 if self.continued is None else self.continued + 1

    @property
    def shown(self) -> bool:
        """Whether any line shows that training went on."""
        return bool(self.iterations or self.beats)

    def slower(self) -> Iteration | None:
        """The first iteration from which all take longer, if there is one."""
        return slower(self.iterations)


def _length_s(found: dict[str, str | None]) -> float | None:
    if text := found.get("ms"):
        return float(text.rstrip("K")) * (1.0 if text.endswith("K") else 1e-3)
    return float(text) if (text := found.get("s")) else None


def _clock(found: dict[str, str | None]) -> str:
    """The time that a bar shows, which counts from its begin."""
    parts = [int(part) for part in (found.get("past") or "0").split(":")]
    past = sum(part * 60**place for place, part in enumerate(reversed(parts)))
    days, rest = divmod(past, 86_400)
    return (
        f"2000-01-{days + 1:02d} {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
        if days < 31
        else ""
    )


_FEWEST = 2
"""Iterations on either side of a change."""
_SLOWER = 1.1
_DEVIATIONS = 5.0
_BLOCKS = 250
_EXACT = 20
"""A length is known from times whose resolution is at most this part of it."""


@dataclass(frozen=True)
class Iteration:
    """A completed iteration: its number, length and time if known, and the line that says so.

    ``size`` is the number of samples of its batch, if the line has it.
    """

    number: int
    seconds: float | None
    file: str
    line: int
    time: str = ""
    node: str | None = None
    size: int | None = None


def timed(iterations: Iterable[Iteration]) -> list[Iteration]:
    """Iterations with their lengths; of those without one, by the times of their lines."""
    found: list[Iteration] = []
    before: dict[str, tuple[int, float]] = {}
    for one in iterations:
        at_s = seconds(one.time) if one.seconds is None else None
        if at_s is None:
            found.append(one)
            continue
        number, then_s = before.get(one.file, (one.number, at_s))
        if one.number != number or one.file not in before:
            before[one.file] = one.number, at_s
        steps, past_s = one.number - number, at_s - then_s
        exact = past_s >= _EXACT * _resolution_s(one.time)
        found.append(replace(one, seconds=past_s / steps) if steps > 0 and exact else one)
    return found


def _resolution_s(time: str) -> float:
    """Of a printed time: a millisecond if it has a fraction, else a second."""
    return 0.001 if "." in time or "," in time else 1.0


def usual_s(iterations: Iterable[Iteration]) -> float | None:
    """The median length of iterations [s]; None if none is known."""
    lengths = [one.seconds for one in iterations if one.seconds is not None]
    return median(lengths) if lengths else None


def slower(iterations: Iterable[Iteration]) -> Iteration | None:
    """The first iteration from which all of the same batch size take longer, if there is one."""
    known = [one for one in iterations if one.seconds is not None]
    runs = [list(run) for _, run in groupby(known, key=lambda one: one.size)]
    return next((slow for run in runs if (slow := _slower(run)) is not None), None)


def _slower(timed: Sequence[Iteration]) -> Iteration | None:
    """The first iteration of the longer ones.

    The change lies where two medians explain the lengths best (least absolute deviations).
    It counts if the later median is a tenth longer, and five deviations from its side's median.
    """
    lengths = [one.seconds or 0.0 for one in timed]
    cuts = range(_FEWEST, len(timed) - _FEWEST + 1)
    if not cuts:
        return None
    cut = _change(lengths)
    before, after = lengths[:cut], lengths[cut:]
    usual = median(before)
    later = median(after)
    rest = [abs(s - usual) for s in before] + [abs(s - later) for s in after]
    limit = usual + max((_SLOWER - 1) * usual, _DEVIATIONS * 1.4826 * median(rest))
    return timed[cut] if later > limit else None


def _change(lengths: list[float]) -> int:
    """Where two medians explain the lengths best: among many, first by medians of blocks."""
    first, end = _FEWEST, len(lengths) - _FEWEST + 1
    if len(lengths) > 2 * _BLOCKS:
        width = -(-len(lengths) // _BLOCKS)
        block = _change([median(lengths[i : i + width]) for i in range(0, len(lengths), width)])
        first, end = max(first, (block - 1) * width), min(end, (block + 1) * width + 1)
    step = max(1, (end - first) // (2 * _BLOCKS))

    def badness(cut: int) -> float:
        return _spread(lengths[:cut]) + _spread(lengths[cut:])

    best = min(range(first, end, step), key=badness)
    if step == 1:
        return best
    return min(range(max(first, best - step), min(end, best + step + 1)), key=badness)


def _spread(lengths: list[float]) -> float:
    middle = median(lengths)
    return sum(abs(seconds - middle) for seconds in lengths)
