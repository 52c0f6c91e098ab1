"""How good are the findings? Draw worlds with and without a fault, diagnose, and score.

    python scripts/faults.py --faults 100 --healthy 40 --pairs 20 --from 5000

Rows are kept in ``results/faults-study``, so an interrupted study continues. The page is
``results/reference/faults.md``, and ``faults.json`` has every figure. The text is in
``scripts/templates``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from fault_curves import draw_responses
from fault_figures import write_pages
from fault_pairs import measured_pair
from fault_study import Row, measured
from fault_worlds import FAULTS
from prism_sim.render.paint import write_png

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure every world, then write the page and the figures."""
    asked = _arguments()
    kinds = asked.kinds.split(",") if asked.kinds else [*FAULTS]
    wanted: list[tuple[int, str | None]] = []
    for number in range(max(asked.faults, asked.healthy)):  # in turn, as it may be stopped
        if number < asked.faults:
            wanted.append((asked.first + number, kinds[number % len(kinds)]))
        if number < asked.healthy:
            wanted.append((asked.first + number, None))
    rows, pairs = [], []
    began = time.monotonic()
    for number in range(asked.pairs):
        pairs.append(measured_pair(asked.first + number, asked.folder))
        sys.stderr.write(f"two faults {asked.first + number}: {pairs[-1]}\n")
    for number, (seed, kind) in enumerate(wanted):
        row = _row(seed, kind, asked.folder)
        if row is not None:
            rows.append(row)
        if time.monotonic() - began > asked.minutes * 60:
            sys.stderr.write(f"stopped after {number + 1} of {len(wanted)} worlds\n")
            break
    if asked.write:
        write_pages(rows, pairs, asked.first)
        write_png(draw_responses(rows), ROOT / "docs" / "images" / "faults-responses.png")


def _row(seed: int, kind: str | None, folder: Path) -> Row | None:
    """One world; None if no such world can be drawn from this seed."""
    try:
        row = measured(seed, kind, folder)
    except ValueError as error:
        sys.stderr.write(f"{kind} {seed}: {error}\n")
        return None
    if not kind or row["injected"]:
        sys.stderr.write(_line(row) + "\n")
        return row
    sys.stderr.write(f"{kind} {seed}: the fault never began\n")
    return None


def _line(row: Row) -> str:
    """A row in a line, for reading while the study runs."""
    layout = f"{row['dp']}x{row['pp']}x{row['tp']} {row['schedule']} z{row['zero_stage']}"
    head = f"{row['kind'] or 'healthy'} {row['seed']} [{layout}, {row['telemetry']}]"
    if not row["injected"]:
        return f"{head} false {row['false']} {row['found']}"
    marks = "".join(
        letter if row[name] else "-"
        for letter, name in (
            ("D", "detected"),
            ("1", "first"),
            ("3", "among"),
            ("C", "cause_right"),
        )
    )
    figures = f"slow {row['slowdown']} cost error {row['cost_error']} delay {row['delay']}"
    where = f"{row['culprit']} {row['window']}"
    return f"{head} {marks} false {row['false']} {figures} TRUE {where} FOUND {row['found']}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--healthy", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=0, help="worlds with two faults")
    parser.add_argument("--from", dest="first", type=int, default=5000, help="first seed")
    parser.add_argument("--kinds", default="", help="separated by commas; left out: all")
    parser.add_argument("--folder", type=Path, default=ROOT / "results" / "faults-study")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after that time")
    parser.add_argument("--write", action="store_true", help="write the page and the figures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
