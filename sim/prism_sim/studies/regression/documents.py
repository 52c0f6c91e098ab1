"""The result of a suite as documents: Markdown for a pull request or a job summary, and JUnit."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree as Xml

from prism_common.files import made_by
from prism_sim.render.markdown import table
from prism_sim.studies.regression.comparing import SIMULATOR, Comparison, Move

COLUMNS = ("method", "group", "headline", "was", "now", "")
"""Titles of a table of headlines; the last column is the verdict."""


def cells(move: Move) -> tuple[str, ...]:
    """The cells of one headline, in the order of :data:`COLUMNS`."""
    verdict = f"{move.verdict} ({SIMULATOR})" if move.by == SIMULATOR else move.verdict
    return move.method, move.group, move.name, shown(move.was), shown(move.now), verdict


def shown(value: float | None) -> str:
    """A value in a table."""
    return "-" if value is None else f"{value:.5g}"


def summary(comparison: Comparison) -> str:
    """The result in one line."""
    verdicts = [move.verdict for move in comparison.moves]
    kinds = ("lost", "redefined", "gained", "new")
    counts = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in kinds if kind in verdicts)
    simulations = f"{len(comparison.took_s)} simulated"
    drifted = f"{len(comparison.drifted)} drifted" if comparison.drifted else "none drifted"
    errors = f", {len(comparison.errors)} failed" if comparison.errors else ""
    held = f"{len(verdicts)} headlines: {counts or 'none moved'}"
    return f"{held}; {simulations}, {drifted}{errors}"


def reasons(comparison: Comparison) -> list[str]:
    """What failed apart from headlines, a line each."""
    lines = [f"{case}: {error}" for case, error in comparison.errors.items()]
    return lines + [
        f"{case}: the simulator has changed: the same seed gives other flows or another truth"
        for case in comparison.drifted
    ]


def markdown(comparison: Comparison, title: str) -> str:
    """A section of a page: the result, and the headlines that moved."""
    parts = [f"### {title}\n", f"{summary(comparison)}.\n"]
    parts += ["\n".join(f"- {line}" for line in reasons(comparison)) + "\n"] * bool(
        reasons(comparison)
    )
    if comparison.moved:
        parts.append(table(COLUMNS, map(cells, comparison.moved)))
    return "\n".join(parts)


def junit(comparison: Comparison, suite: str) -> str:
    """JUnit XML: a test case for each simulation, with its time, and one for each headline."""
    top = Xml.Element("testsuites")
    simulations = [*comparison.took_s, *comparison.errors]
    group = _suite(top, f"{suite}: simulations", simulations, sum(comparison.took_s.values()))
    for name in simulations:
        case = _case(group, "simulation", name, comparison.took_s.get(name, 0.0))
        if name in comparison.errors:
            Xml.SubElement(case, "error", {"message": comparison.errors[name]})
        elif name in comparison.drifted:
            _fail(case, "the simulator has changed: the same seed gives another world")
    group = _suite(top, f"{suite}: headlines", comparison.moves, 0.0)
    for move in comparison.moves:
        case = _case(group, f"{move.method}.{move.group}", move.name, 0.0)
        if move.failed:
            _fail(case, f"{shown(move.was)} -> {shown(move.now)}: {cells(move)[-1]}")
    for group in top:
        for kind in ("failure", "error"):
            group.set(f"{kind}s", str(sum(1 for _ in group.iter(kind))))
    top.set("name", made_by("prism-sim"))
    Xml.indent(top)
    return Xml.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def _suite(top: Xml.Element, name: str, cases: Iterable[object], took_s: float) -> Xml.Element:
    attributes = {"name": name, "tests": str(len(list(cases))), "time": f"{took_s:.3f}"}
    return Xml.SubElement(top, "testsuite", attributes)


def _case(group: Xml.Element, of: str, name: str, took_s: float) -> Xml.Element:
    attributes = {"classname": of, "name": name, "time": f"{took_s:.3f}"}
    return Xml.SubElement(group, "testcase", attributes)


def _fail(case: Xml.Element, message: str) -> None:
    Xml.SubElement(case, "failure", {"message": message})
