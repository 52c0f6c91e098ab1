"""How far a job came: its iterations and how long they took, and whether training had begun."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from statistics import median

_ITERATION = re.compile(
    r"iteration +(\d+)/ *\d+ \|.*?elapsed time per iteration \((m?s)\): ([\d.]+)"
)
_STEP = re.compile(r"\bstep=(\d+), skipped=.*?(?:iter time \(s\): ([\d.]+)|$)")
_CONTINUED = re.compile(r"(?:loading|loaded) .*checkpoint .*at iteration (\d+)")
_BEGUN = ("training ...", "before the start of training step", "DeepSpeed Engine is ready")
MOST = 1_000_000
"""Iterations that are kept; of later ones, only the highest number is known."""
_FEWEST = 2
"""Iterations on either side of a change."""
_SLOWER = 1.1
_DEVIATIONS = 5.0
_BLOCKS = 250


@dataclass(frozen=True)
class Iteration:
    """A completed iteration: its number, length and time if known, and the line that says so."""

    number: int
    seconds: float | None
    file: str
    line: int
    time: str = ""
    node: str | None = None


@dataclass
class Progress:
    """Completed iterations in order, and the one that the job continued from."""

    iterations: list[Iteration] = field(default_factory=list)
    continued: int | None = None
    begun: bool = False
    last: int | None = None

    def read(
        self, text: str, file: str, line: int, time: str = "", node: str | None = None
    ) -> bool:
        """Note what ``text`` says about progress; return whether an iteration was completed."""
        if "iteration" in text and (match := _ITERATION.search(text)):
            seconds = float(match[3]) / (1000 if match[2] == "ms" else 1)
            self._add(Iteration(int(match[1]), seconds, file, line, time, node))
            return True
        if "step=" in text and (match := _STEP.search(text)):
            seconds_of = float(match[2]) if match[2] else None
            self._add(Iteration(int(match[1]), seconds_of, file, line, time, node))
            return True
        if "checkpoint" in text and (match := _CONTINUED.search(text)):
            self.continued = int(match[1])
            return True
        if any(word in text for word in _BEGUN):
            self.begun = True
        return False

    def _add(self, iteration: Iteration) -> None:
        self.last = max(self.last or 0, iteration.number)
        if len(self.iterations) < MOST:
            self.iterations.append(iteration)

    @property
    def next(self) -> int | None:
        """The iteration that was not completed; None if the logs do not tell."""
        if self.last is not None:
            return self.last + 1
        if not self.begun:
            return None
        return 1 if self.continued is None else self.continued + 1

    def slower(self) -> Iteration | None:
        """The first iteration from which all take longer, if there is one.

        The change lies where two medians explain the lengths best (least absolute deviations).
        It counts if the later median is a tenth longer, and five deviations from its side's median.
        """
        timed = [(one, one.seconds) for one in self.iterations if one.seconds is not None]
        lengths = [seconds for _, seconds in timed]
        cuts = range(_FEWEST, len(timed) - _FEWEST + 1)
        if not cuts:
            return None
        cut = _change(lengths)
        before, after = lengths[:cut], lengths[cut:]
        usual = median(before)
        later = median(after)
        rest = [abs(s - usual) for s in before] + [abs(s - later) for s in after]
        limit = usual + max((_SLOWER - 1) * usual, _DEVIATIONS * 1.4826 * median(rest))
        return timed[cut][0] if later > limit else None


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
