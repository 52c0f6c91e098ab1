"""What there is to choose from: bundled scenarios, presets, kinds of faults, schedules, methods."""

from __future__ import annotations

import inspect
from typing import Any

from prism_sim.commands.bundled import bundled


def everything() -> dict[str, dict[str, str]]:
    """A line about each thing that can be named in a scenario or on the command line."""
    from llmprism.pipeline import METHODS

    from prism_sim.faults import KINDS
    from prism_sim.scenario.presets import PRESETS
    from prism_sim.scenario.source import read_source
    from prism_sim.training.schedules import SCHEDULES

    return {
        "scenarios": {
            name: str(read_source(path).values.get("description", ""))
            for name, path in bundled().items()
        },
        "models": {
            name: f"{sizes.total_parameters / 1e9:.1f} billion parameters, "
            f"{sizes.layers} layers of width {sizes.hidden}"
            for name, sizes in PRESETS.items()
        },
        "faults": {name: _first_sentence(kind) for name, kind in KINDS.items()},
        "schedules": {name: _first_sentence(schedule) for name, schedule in SCHEDULES.items()},
        "methods": {name: _first_sentence(method) for name, method in METHODS.items()},
    }


def as_text(things: dict[str, dict[str, str]]) -> str:
    """``things`` in columns, one section after the other."""
    width = max(len(name) for section in things.values() for name in section)
    blocks = [
        "\n".join([title, *(f"  {name:{width}}  {about}".rstrip() for name, about in rows.items())])
        for title, rows in things.items()
    ]
    return "\n\n".join(blocks)


def _first_sentence(thing: Any) -> str:
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(paragraph.split())
