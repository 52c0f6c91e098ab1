"""Writing the scores of the diagnosis from logs: ``python -m evaluation logs``."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.exam.intervals import Estimate
from evaluation.foreign.page import filled
from evaluation.logs.parts import measure, measure_worlds
from evaluation.logs.scoring import Case, Hits, Tally, tallied
from evaluation.paths import ROOT
from prism_common.files import write_json
from prism_sim.toolkit import table

PAGE = ROOT / "results/reference/logs.md"
_COLUMNS = ("precision", "recall", "top_1", "top_5", "stage", "iteration", "cause")
_HEAD, _MISSED, _WITH_FLOWS = (
    (ROOT / "evaluation/templates/logs.md").read_text(encoding="utf-8").split("<!-- tables -->\n\n")
)
_PUBLISHED = "| L4, published | 78.6 | 98.2 | 87.3 | 65.8 | 80 | - | - | - |"
"""Of other logs, which are closed (arXiv 2503.20263)."""


def write(failures: int, worlds: int, seed: int) -> str:
    """Write the page, and its figures as JSON; return the page."""
    values = {"failures": failures, "worlds": worlds, "seed": seed}
    cases = measure(failures, seed)
    parts = [_HEAD.format(**values)]
    for population, of in cases.items():
        parts.append(f"## Population {population}\n\n{_table(tallied(of))}{_PUBLISHED}\n")
    parts.append(f"{_MISSED}{_misses([case for of in cases.values() for case in of])}")
    cases["flows"] = measure_worlds(worlds, seed)
    parts.append(_WITH_FLOWS.format(number=len(cases["flows"]), **values) + _nodes(cases["flows"]))
    text = filled("\n".join(parts))
    PAGE.write_text(text, encoding="utf-8")
    figures = {name: _figures(tallied(of)) for name, of in cases.items()}
    content = values | {"figures": figures}
    write_json(PAGE.with_suffix(".json"), content)
    return text


def _figures(tallies: dict[str, Tally]) -> dict[str, dict[str, Estimate]]:
    """The estimate of each rule and quantity."""
    return {
        rule: {name: tally.estimate(name) for name in tally.of} for rule, tally in tallies.items()
    }


def _nodes(cases: Sequence[Case]) -> str:
    """How often each rule names the first node, in all and by stage."""
    stages = list(dict.fromkeys(_stage(case) for case in cases))
    groups = [cases, *([case for case in cases if _stage(case) == stage] for stage in stages)]
    tallies = [tallied(group) for group in groups]
    rows = [
        [rule, *(_cell(tally[rule].estimate("top_1")) for tally in tallies)]
        for rule in tallies[0]
        if rule != "oracle"
    ]
    return table(["rule", "node: first", *(f"stage {stage}" for stage in stages)], rows)


def _misses(cases: Sequence[Case]) -> str:
    """What prism missed, by cause."""
    names = {"top_1": "first node", **{name: name for name in ("stage", "iteration", "cause")}}
    rows = []
    for kind in sorted({case["kind"] for case in cases}):
        scored = [case["scored"]["prism"] for case in cases if case["kind"] == kind]
        missed = [sum(_missed(hits, name) for hits in scored) for name in names]
        if any(missed):
            rows.append([f"`{kind}`", *map(str, (len(scored), *missed))])
    return table(["cause", "failures", *names.values()], rows)


def _missed(hits: Hits, name: str) -> bool:
    right, of = hits.get(name, (0, 0))
    return right < of


def _stage(case: Case) -> str:
    return case["symptom"].partition(":")[0]


def _table(tallies: dict[str, Tally]) -> str:
    head = ("rule", "events: precision", "recall", "F1", "node: first", "of five", "stage")
    rows = []
    for name, tally in tallies.items():
        cells = [_cell(tally.estimate(column)) for column in _COLUMNS]
        f1 = "-" if tally.f1 is None else f"{100 * tally.f1:.1f}"
        rows.append([name, *cells[:2], f1, *cells[2:]])
    return table([*head, "iteration", "cause"], rows)


def _cell(estimate: Estimate) -> str:
    if estimate["value"] is None:
        return "-"
    value, low, high = (100 * estimate[name] for name in ("value", "low", "high"))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"
