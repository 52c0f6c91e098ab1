"""The traps on the page: prediction, what was found, and whether the prediction came true."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from prism_sim.toolkit import table
from reproduction import pages
from reproduction.base import Done, PageFigure
from reproduction.traps.measure import TRAPS
from reproduction.words import with_range


class Description(NamedTuple):
    """What the page says of a trap; ``shown`` has the label of each figure."""

    title: str
    prediction: str
    shown: dict[str, str]
    note: str = ""


@cache
def descriptions() -> dict[int, Description]:
    """The description of each trap, by its number."""
    content = yaml.safe_load((Path(__file__).parent / "traps.yaml").read_text(encoding="utf-8"))
    return {number: Description(**words) for number, words in content.items()}


def section(done: Sequence[Done]) -> str:
    """The failure map."""
    finished = [number for number in TRAPS if _of(number, done)]
    words = descriptions()
    head = ["", "trap", "prediction", "observed", "as predicted"]
    return pages.text(
        "traps",
        map=table(head, [_row(number, _of(number, done)) for number in finished]),
        notes=[words[number].note for number in finished if words[number].note],
    )


def _of(number: int, done: Sequence[Done]) -> list[Done]:
    return [one for one in done if one.trial.settings["trap"] == number]


def _row(number: int, done: list[Done]) -> list[str]:
    words = descriptions()[number]
    found = [
        f"{label}: {with_range(float(one.result[name]) for one in done)}"
        for name, label in words.shown.items()
    ]
    came = sum(one.result["fails"] for one in done)
    verdict = "yes" if came == len(done) else "no" if not came else "in part"
    seeds = f"{verdict}, {came} of {len(done)} seeds"
    return [str(number), words.title, words.prediction, "; ".join(found), seeds]


def gaps(done: Sequence[Done]) -> list[str]:
    """Traps whose prediction did not come true."""
    missed = [one.trial for one in done if not one.result["fails"]]
    facts = [{"trap": trial.settings["trap"], "name": trial.name} for trial in missed]
    return pages.paragraphs("traps-gaps", missed=facts)


def pictures(_: Sequence[Done]) -> list[PageFigure]:
    """None: a table is enough."""
    return []
