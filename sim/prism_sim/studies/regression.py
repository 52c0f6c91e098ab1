"""Regression suite: compares every figure of many cases with a saved reference.

The suite (``scenarios/regression.yaml``) names scenarios, seeds and methods. For each case all
numbers of ``score.json`` are compared, and figures of the simulation; timings are not.
:mod:`prism_sim.studies.rules` defines tolerances and the better direction. A figure that lost
its value counts as worse, and so does a case that fails, or that exists on one side only; a
figure with a value only now is reported as new. A change that is neither better nor worse
is reported as moved, and fails too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from llmprism.errors import Problem, UserError
from prism_sim.loading.closed import read_closed
from prism_sim.scenario.base import Closed
from prism_sim.studies import rules
from prism_sim.studies.cases import SIMULATED_ONLY, RunCase, figures_of
from prism_sim.studies.pool import Outcome, outcomes
from prism_sim.studies.reading import known_methods, scenario_at

Figures = dict[str, float | None]
Reference = dict[str, Figures]
"""Figures by case name."""

_LEFT_OUT = "meta.schema"
_DIGITS = 9  # of a figure in the reference; further digits differ between machines


class Entry(Closed):
    """One scenario of a suite, with every seed and method."""

    scenario: str = Field(description="A file, relative to the suite, or a bundled scenario.")
    seeds: tuple[int, ...] = Field(min_length=1, description="Seeds to run it with.")
    methods: tuple[str, ...] = Field(default=("paper",), min_length=1, description="Methods.")
    set: dict[str, Any] = Field(
        default={}, description="Values by dotted path, such as jobs.0.dp, set in the scenario."
    )
    label: str = Field(
        default="", description="Distinguishes several entries of the same scenario."
    )


class Suite(Closed):
    """The content of a regression suite."""

    description: str = Field(default="", description="Purpose of the suite.")
    cases: tuple[Entry, ...] = Field(min_length=1, description="Scenarios, seeds and methods.")


FAILING = ("lost", "moved")
"""Verdicts that fail a case."""


@dataclass(frozen=True)
class Move:
    """A changed figure; ``verdict``: ``lost``, ``gained``, ``moved`` or ``new``."""

    case: str
    figure: str
    was: float | None
    now: float | None
    verdict: str


@dataclass(frozen=True)
class CaseResult:
    """The result of one case.

    Attributes
    ----------
    figures : number of compared figures.
    error : reason why nothing could be compared.
    """

    case: str
    figures: int = 0
    moves: list[Move] = field(default_factory=list)
    error: str | None = None

    @property
    def lost(self) -> list[Move]:
        """Moves that fail: for the worse, or without a better direction."""
        return [move for move in self.moves if move.verdict in FAILING]

    @property
    def failed(self) -> bool:
        return self.error is not None or bool(self.lost)

    def as_data(self) -> dict[str, Any]:
        """The verdict for a JSON document."""
        return {**asdict(self), "failed": self.failed}


def read_suite(path: Path) -> list[RunCase]:
    """The cases of the suite at ``path``.

    Raises
    ------
    UserError : errors of the suite, or of a scenario that it names.
    """
    suite, source = read_closed(path, Suite)
    known_methods((m for entry in suite.cases for m in entry.methods), [SIMULATED_ONLY])
    cases: list[RunCase] = []
    for index, entry in enumerate(suite.cases):
        for seed in entry.seeds:
            overrides = {**entry.set, "seed": seed}
            at = ("cases", index)
            scenario = scenario_at(entry.scenario, path.parent, overrides, source, at)
            label = f" ({entry.label})" if entry.label else ""
            name = f"{entry.scenario}{label} seed {seed}"
            cases += [RunCase(f"{name} {method}", scenario, method) for method in entry.methods]
    _refuse_twins(cases, source.file)
    return cases


def _refuse_twins(cases: list[RunCase], file: str) -> None:
    names = [case.name for case in cases]
    twins = sorted({name for name in names if names.count(name) > 1})
    problems = [Problem(f"the case {name!r} occurs twice", file, "add label") for name in twins]
    if problems:
        raise UserError(problems)


def run_suite(
    cases: list[RunCase], processes: int, progress: Callable[[float, str], None] | None = None
) -> dict[str, Outcome[Figures]]:
    """Run all cases; figures or error by case name, in the order of the suite."""
    found: dict[str, Outcome[Figures]] = {}
    for case, outcome in outcomes(_figures, cases, processes):
        found[case.name] = outcome
        if progress:
            progress(len(found) / len(cases), f"{len(found)} of {len(cases)}: {case.name}")
    return {case.name: found[case.name] for case in cases}


def _figures(case: RunCase) -> Figures:
    found = figures_of(case)
    return {name: _rounded(value) for name, value in found.items() if name != _LEFT_OUT}


def _rounded(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else float(f"{value:.{_DIGITS}g}")


def compare(found: dict[str, Outcome[Figures]], reference: Reference) -> list[CaseResult]:
    """A verdict on every case of either side."""
    verdicts = [_verdict(name, outcome, reference.get(name)) for name, outcome in found.items()]
    gone = "the reference has this case, and the suite does not"
    return verdicts + [CaseResult(name, error=gone) for name in reference if name not in found]


def _verdict(name: str, outcome: Outcome[Figures], was: Figures | None) -> CaseResult:
    if outcome.result is None:
        return CaseResult(name, error=outcome.error)
    if was is None:
        return CaseResult(name, error="the reference does not have this case")
    now = outcome.result
    names = dict.fromkeys([*was, *now])
    moves = [_move(name, figure, was.get(figure), now.get(figure)) for figure in names]
    return CaseResult(name, len(names), [move for move in moves if move])


def _move(case: str, figure: str, was: float | None, now: float | None) -> Move | None:
    if rules.absent_is_zero(figure):
        was, now = was or 0, now or 0
    if was is None or now is None:
        verdict = "same" if was is now else "new" if was is None else "lost"
    else:
        verdict = rules.verdict(figure, was, now)
    return None if verdict == "same" else Move(case, figure, was, now, verdict)


def read_reference(path: Path) -> Reference:
    """The reference at ``path``; a UserError if there is none."""
    from prism_sim.run_folder import Run

    if not path.exists():
        what = "there is no reference to compare with"
        raise UserError(Problem(what, str(path), "make one with --update"))
    content = Run(path.parent).read_json(path)
    reference: Reference = content["cases"]
    return reference


def write_reference(path: Path, found: dict[str, Outcome[Figures]]) -> None:
    """Save the figures of all cases as the reference; a UserError if a case failed."""
    from prism_sim.run_folder import Run

    failed = [Problem(str(o.error), name) for name, o in found.items() if o.result is None]
    if failed:
        raise UserError(failed)
    about = "Made by `prism-sim regress --update`; every figure of every case of the suite."
    cases = {name: outcome.result for name, outcome in found.items()}
    Run(path.parent).write_json(path, {"about": about, "cases": cases})


def junit(verdicts: Iterable[CaseResult], suite: str) -> str:
    """JUnit XML with one test case for each case; lost figures are its failure."""
    from xml.etree import ElementTree as Xml

    results = list(verdicts)
    errors = sum(verdict.error is not None for verdict in results)
    counts = {"tests": len(results), "errors": errors,
              "failures": sum(verdict.failed for verdict in results) - errors}  # fmt: skip
    head = {"name": suite, **{key: str(count) for key, count in counts.items()}}
    top = Xml.Element("testsuites")
    group = Xml.SubElement(top, "testsuite", head)
    for verdict in results:
        case = Xml.SubElement(group, "testcase", {"classname": suite, "name": verdict.case})
        lines = [f"{m.figure}: {m.was} -> {m.now} ({m.verdict})" for m in verdict.lost]
        if verdict.error is not None:
            Xml.SubElement(case, "error", {"message": verdict.error})
        elif lines:
            attributes = {"message": f"{_failures(verdict)} against the reference"}
            Xml.SubElement(case, "failure", attributes).text = "\n".join(lines)
    Xml.indent(top)
    return Xml.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def _failures(verdict: CaseResult) -> str:
    """Numbers of lost and moved figures as text."""
    kinds = [move.verdict for move in verdict.lost]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in FAILING if kind in kinds)
