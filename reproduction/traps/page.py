"""The traps on the page: the prediction, the observed figures, and whether they agree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from prism_sim.toolkit import table
from reproduction import pages
from reproduction.base import Done, PageFigure
from reproduction.pages import with_range
from reproduction.traps.measure import TRAPS


class Description(NamedTuple):
    """Text about a trap on the page; ``shown`` has the label of each figure."""

    title: str
    prediction: str
    shown: dict[str, str]
    note: str = ""


@cache
def descriptions() -> dict[int, Description]:
    """The description of each trap, by its number."""
    content = yaml.safe_load((Path(__file__).parent / "traps.yaml").read_text(encoding="utf-8"))
    return {number: Description(**fields) for number, fields in content.items()}


def section(done: Sequence[Done]) -> str:
    """The table of all traps, with notes."""
    finished = [number for number in TRAPS if _of(number, done)]
    about = descriptions()
    head = ["", "trap", "prediction", "observed", "as predicted"]
    return pages.text(
        "traps",
        map=table(head, [_row(number, _of(number, done)) for number in finished]),
        notes=[about[number].note for number in finished if about[number].note],
    )


def _of(number: int, done: Sequence[Done]) -> list[Done]:
    return [one for one in done if one.trial.settings["trap"] == number]


def _row(number: int, done: list[Done]) -> list[str]:
    about = descriptions()[number]
    found = [
        f"{label}: {with_range(float(one.result[name]) for one in done)}"
        for name, label in about.shown.items()
    ]
    failures = sum(one.result["fails"] for one in done)
    verdict = "yes" if failures == len(done) else "no" if not failures else "in part"
    seeds = f"{verdict}, {failures} of {len(done)} seeds"
    return [str(number), about.title, about.prediction, "; ".join(found), seeds]


def gaps(done: Sequence[Done]) -> list[str]:
    """Traps that did not fail as predicted."""
    missed = [one.trial for one in done if not one.result["fails"]]
    facts = [{"trap": trial.settings["trap"], "name": trial.name} for trial in missed]
    return pages.paragraphs("traps-gaps", missed=facts)


def pictures(_: Sequence[Done]) -> list[PageFigure]:
    """None: a table is enough."""
    return []
