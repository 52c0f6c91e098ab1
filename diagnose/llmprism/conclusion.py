"""The conclusion of a diagnosis beside its findings: what else is slow, and what was judged.

"Nothing stands out" promises that a fault would have been seen. So it appears only where all that
matters was compared; elsewhere the conclusion names what was compared, and what was not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from llmprism.persistent_deviations import Scope
from llmprism.slow_steps import SlowSteps
from prism_common.quantities import percent

CALM, PARTLY, SLOW = "calm", "partly", "slow"
_MOST = 12  # stretches in words


@dataclass(frozen=True)
class Conclusion:
    """What stands beside the findings.

    Attributes
    ----------
    tone : ``calm`` (all was compared, and nothing is slow), ``partly`` (nothing that was compared
        is slow), or ``slow``.
    headline : one sentence; empty beside findings.
    slow : what is slow and has no finding.
    compared, not_judged : what the diagnosis rests on.
    """

    tone: str
    headline: str
    slow: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """All sentences, the headline first."""
        slow = [f"Slow, without a finding. {one}." for one in self.slow]
        compared = [f"Compared in {one}." for one in self.compared]
        not_judged = [f"Not judged in {one}." for one in self.not_judged]
        return [*filter(None, [self.headline]), *slow, *compared, *not_judged]


def conclude(
    scopes: Sequence[Scope],
    stretches: Sequence[SlowSteps],
    findings: int,
    doubted: int = 0,
    least: Mapping[str, float] | None = None,
    left_out: Collection[str] = (),
) -> Conclusion:
    """Put together what was compared and what is slow.

    Parameters
    ----------
    findings : number of findings besides.
    doubted : number of reasons why the records of some jobs do not suffice.
    least : by how much steps of each job have to be longer to stand out, as a share of a step.
    left_out : tables that the method does not fill.
    """
    if "findings" in left_out:
        what = "What is slow is not answered: this method has no findings."
        others = [name for name in left_out if name != "findings"]
        rest = f" Neither are: {', '.join(others)}." if others else ""
        return Conclusion(PARTLY, f"{what}{rest}")
    paused = {one.job: one.paused for one in scopes}
    slow = [one.because(paused.get(one.job, {})) for one in stretches[:_MOST]]
    if len(stretches) > _MOST:
        slow.append(f"{len(stretches) - _MOST} more stretches of steps")
    slow += [f"{one.job}: {text}" for one in scopes for text in one.slow]
    not_judged = _by_text(scopes, lambda one: one.not_judged)
    shown = least or {}
    compared = _by_text(scopes, lambda one: (_steps(shown.get(one.job)), *one.compared))
    if slow:
        tone, headline = SLOW, "Something is slow, and no culprit is named."
    elif not_judged or doubted or not scopes:
        tone, headline = PARTLY, "Nothing that was compared stands out. Not all could be compared."
    else:
        tone, headline = CALM, "Nothing stands out."
    return Conclusion(
        tone, "" if findings else headline, tuple(slow), tuple(compared), tuple(not_judged)
    )


def _steps(least: float | None) -> str:
    """What the comparison of steps shows, in steps of five percent: jobs then share a sentence."""
    what = "each step with the other steps"
    if least is None or not math.isfinite(least):
        return what
    return f"{what} (two that are {percent(math.ceil(20 * least) / 20, 0)} longer stand out)"


def _by_text(scopes: Iterable[Scope], of: Callable[[Scope], Iterable[str]]) -> list[str]:
    """The sentences about each job, once for all jobs that share them."""
    jobs: dict[str, list[str]] = {}
    for scope in scopes:
        if text := "; ".join(of(scope)):
            jobs.setdefault(text, []).append(scope.job)
    return [f"{_listed(names)}: {text}" for text, names in jobs.items()]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more jobs" if len(names) > 3 else shown
