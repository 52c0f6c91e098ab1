"""What a score must reach: ``jobs.accuracy=1``, ``timeline.step_error_mean=0.003``.

A figure is named by its way through ``score.json``. Accuracies and their like must not be
below the bound; of errors, biases, false alarms and delays, of which less is better, the
amount must not be above it. A figure that the run leaves undefined does not reach any bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmprism.errors import Problem, UserError

_LESS_IS_BETTER = (
    "error",
    "bias",
    "false_alarm",
    "steps_to_detect",
    "phantom",
    "unexplained",
    "spurious",
)


@dataclass(frozen=True)
class Bound:
    """The figure at ``path`` of a score is to be no worse than ``value``."""

    path: str
    value: float

    @property
    def less_is_better(self) -> bool:
        """Whether the bound is one from above."""
        figure = self.path.rpartition(".")[2]
        return any(word in figure for word in _LESS_IS_BETTER)

    def missed_by(self, score: dict[str, Any]) -> str | None:
        """Why ``score`` does not keep the bound; None if it does.

        Raises
        ------
        UserError : the score has no such figure.
        """
        figure = self._figure(score)
        if figure is None:
            return f"{self.path} is not defined for this run, and was to be {self._wish()}"
        kept = abs(figure) <= self.value if self.less_is_better else figure >= self.value
        return None if kept else f"{self.path} is {figure:g}, and was to be {self._wish()}"

    def _wish(self) -> str:
        return f"at {'most' if self.less_is_better else 'least'} {self.value:g}"

    def _figure(self, score: dict[str, Any]) -> float | None:
        from prism_sim.scenario.words import did_you_mean

        at: Any = score
        for part in self.path.split("."):
            if not isinstance(at, dict) or part not in at:
                known = [path for path, _ in figures(score)]
                what = f"the score has no figure {self.path!r}"
                raise UserError(Problem(what, "--fail-under", did_you_mean(self.path, known)))
            at = at[part]
        if at is not None and not isinstance(at, (int, float)):
            raise UserError(Problem(f"{self.path} is not a figure", "--fail-under"))
        return at


def parse_bound(text: str) -> Bound:
    """Read ``figure=bound``; ValueError if it is not that.

    >>> parse_bound("jobs.accuracy=1")
    Bound(path='jobs.accuracy', value=1.0)
    """
    path, equals, value = text.partition("=")
    if not (path and equals):
        raise ValueError(f"{text!r} is not of the form figure=bound, such as jobs.accuracy=1")
    try:
        return Bound(path, float(value))
    except ValueError:
        raise ValueError(f"{value!r} in {text!r} is not a number") from None


def figures(score: dict[str, Any], above: str = "") -> list[tuple[str, float | None]]:
    """Every figure of ``score`` with its path, in order."""
    found: list[tuple[str, float | None]] = []
    for key, value in score.items():
        if isinstance(value, dict):
            found += figures(value, f"{above}{key}.")
        elif value is None or isinstance(value, (int, float)):
            found.append((f"{above}{key}", value))
    return found
