"""Lists for users: available names, and the findings of a diagnosis."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prism_common.command import PLAIN_WIDTH
from prism_common.quantities import counted
from prism_sim.loading.bundled import bundled, bundled_operations, bundled_studies, question_of

if TYPE_CHECKING:
    from prism_sim.logs.failures import FailureKind
    from prism_sim.scenario.model_sizes import ModelSizes


FIGURES = "figures"


def everything() -> dict[str, dict[str, str]]:
    """One line about each name that a scenario or the command line may use."""
    from llmprism import methods
    from prism_sim.collector.effects import KINDS as EFFECTS
    from prism_sim.faults import KINDS
    from prism_sim.importers import KINDS as TRACES
    from prism_sim.logs.failures import FAILURES
    from prism_sim.operations.campaigns import CAMPAIGNS
    from prism_sim.scenario.presets import PRESETS
    from prism_sim.scenario.routing import ROUTINGS
    from prism_sim.scenario.source import read_source
    from prism_sim.training.data_parallel import STRATEGIES
    from prism_sim.training.habits import HABITS
    from prism_sim.training.schedules import SCHEDULES

    return {
        "scenarios": {
            name: str(read_source(path).values.get("description", ""))
            for name, path in bundled().items()
        },
        "studies": {name: question_of(path) for name, path in bundled_studies().items()},
        "operations": {
            name: str(read_source(path).values.get("description", ""))
            for name, path in bundled_operations().items()
        },
        "policies": _policies(),
        "campaigns": {name: campaign.about for name, campaign in CAMPAIGNS.items()},
        "models": {name: _about_model(sizes) for name, sizes in PRESETS.items()},
        "faults": {name: _first_sentence(kind) for name, kind in KINDS.items()},
        "failures": {name: _about_failure(kind) for name, kind in FAILURES.items()},
        "effects": {name: _first_sentence(kind) for name, kind in EFFECTS.items()},
        "traces": {name: _first_sentence(kind) for name, kind in TRACES.items()},
        "schedules": {name: _first_sentence(kind) for name, kind in SCHEDULES.items()},
        "routings": {name: _first_sentence(kind) for name, kind in ROUTINGS.items()},
        "strategies": {name: _first_sentence(kind) for name, kind in STRATEGIES.items()},
        "habits": {name: _first_sentence(kind) for name, kind in HABITS.items()},
        "methods": {name: _about_method(name) for name in methods.names()},
    }


def _policies() -> dict[str, str]:
    """The kinds of which a policy of operations consists, and those of its failures."""
    from prism_sim.operations.checkpoints import CHECKPOINTS
    from prism_sim.operations.detections import DETECTIONS
    from prism_sim.operations.intervals import INTERVALS
    from prism_sim.operations.localisations import LOCALISATIONS
    from prism_sim.operations.recoveries import RECOVERIES
    from prism_sim.operations.times import TIMES
    from prism_sim.operations.traces import TRACES

    parts: dict[str, Mapping[str, type[Any]]] = {
        "checkpoint": CHECKPOINTS,
        "interval": INTERVALS,
        "detection": DETECTIONS,
        "localisation": LOCALISATIONS,
        "recovery": RECOVERIES,
        "times": TIMES,
        "trace": TRACES,
    }
    return {
        f"{part}: {name}": _about_module_of(kind)
        for part, kinds in parts.items()
        for name, kind in kinds.items()
    }


def listing(topic: str | None) -> tuple[dict[str, Any], str]:
    """The section ``topic``, or all sections, as data and as text.

    Raises
    ------
    UserError : there is no such section.
    """
    from prism_common.errors import Problem, UserError
    from prism_sim.scenario.words import did_you_mean

    if topic == FIGURES:
        return figures_data(), figures_text()
    things = everything()
    if topic is None:
        others = f"figures\n  see: prism-sim list {FIGURES}"
        return things, f"{as_text(things)}\n\n{others}"
    if topic not in things:
        known = did_you_mean(topic, [*things, FIGURES])
        raise UserError(Problem(f"there is no list of {topic!r}", "list", known))
    section = {topic: things[topic]}
    return section, as_text(section)


def figures_data() -> dict[str, Any]:
    """The catalogue of figures for a JSON document."""
    from prism_sim.studies.cases import CATALOGUE

    return {FIGURES: [figure.as_data() for figure in CATALOGUE]}


def figures_text() -> str:
    """The catalogue of figures: a line for each, its description below it."""
    from prism_sim.studies.cases import CATALOGUE

    lines = [
        "figures: words in capitals stand for names. --fail-under FIGURE=BOUND is an",
        "upper bound of figures that are better lower or near zero, and a lower bound",
        "of all others; FIGURE>=BOUND and FIGURE<=BOUND give the direction. truth.* are",
        "figures of studies and of regress only.",
        "",
    ]
    for figure in CATALOGUE:
        facts = ", ".join(filter(None, (figure.unit, figure.better.value)))
        lines += [f"{figure.path}", _wrapped("    ", f"{facts}: {figure.about}")]
    return "\n".join(lines)


def as_text(things: dict[str, dict[str, str]]) -> str:
    """``things`` in columns, section by section."""
    width = max(len(name) for section in things.values() for name in section)
    blocks = [
        "\n".join(
            [title, *(_wrapped(f"  {name:{width}}  ", about) for name, about in rows.items())]
        )
        for title, rows in things.items()
    ]
    return "\n\n".join(blocks)


def _wrapped(begin: str, text: str) -> str:
    """``text`` after ``begin``, in as many lines as it needs, the later ones indented as far."""
    lines = textwrap.wrap(
        text, PLAIN_WIDTH, initial_indent=begin, subsequent_indent=" " * len(begin),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(lines) or begin.rstrip()


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """The summary of a diagnosis in a few lines."""
    intake = summary["intake"]
    lines = [
        f"diagnosis: {summary['diagnosis']}",
        f"method: {summary['method']}",
        f"records: {intake['kept']} of {intake['rows']}",
    ]
    lines += [f"set aside: {rows} ({reason})" for reason, rows in intake["set_aside"].items()]
    lines += [
        f"{job['job']}: {counted(job['addresses'], 'address', 'addresses')}, "
        f"{counted(job['steps'], 'step')}, {counted(job['findings'], 'finding')}"
        for job in summary["jobs"]
    ]
    return [*lines, f"findings: {len(summary['findings'])}"]


def _about_model(sizes: ModelSizes) -> str:
    billions = f"{sizes.total_parameters / 1e9:.1f} billion parameters"
    if sizes.moe is not None:
        routed = f"{sizes.moe.top_k} of {sizes.moe.experts} experts"
        billions += f" ({sizes.active_parameters / 1e9:.1f} a token: {routed})"
    return f"{billions}, {sizes.layers} layers of width {sizes.hidden}"


def _about_failure(kind: type[FailureKind]) -> str:
    held_out = ", exam only" if kind.held_out else ""
    facts = f"{kind.category}, {kind.stage}{held_out}; {kind.count:g}, {kind.source}"
    return f"{kind.about}. [{facts}]"


def _about_method(name: str) -> str:
    """One line about a method; code of other packages is not imported for it."""
    from llmprism import methods

    if methods.is_foreign(name):
        return f"of another package: {methods.reference_of(name)}"
    return _about_module_of(methods.get(name))


def _about_module_of(thing: Any) -> str:
    """The headline of the module that ``thing``, or else its class, is defined in."""
    name = getattr(thing, "__module__", None) or type(thing).__module__
    headline = (sys.modules[name].__doc__ or "").partition("\n")[0]
    return re.sub(r"^``[^`]*``: ", "", headline)


def _first_sentence(thing: Any) -> str:
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "")
