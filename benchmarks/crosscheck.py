"""Write ``results/reference/fabric.md``: the fabric compared with other tools and measurements.

``python benchmarks/crosscheck.py`` takes a few minutes. With ``--fixtures`` it writes the files of
``tests/theory/test_foreign.py`` instead. Both need SimGrid (see ``peer.py``). ``--only routing``
writes one section again, and leaves the others as they are.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import foreign_checks
import gray_checks
import peer
import routing_checks
from page import Section

PAGE = Path(__file__).parent.parent / "results" / "reference" / "fabric.md"
OPENING = """# Checks of the fabric

This page is made by `python benchmarks/crosscheck.py`, so do not edit it. The text says which
figures of other tools are quoted and not computed here. Closed forms, exact fractions and rings
chunk by chunk are compared in `tests/theory`, with every change.
"""
SECTIONS = (
    foreign_checks.same_flows,
    foreign_checks.contention,
    foreign_checks.nccl_tests,
    routing_checks.routing,
    gray_checks.gray_links,
)
NEED_SIMGRID = (foreign_checks.same_flows, foreign_checks.contention)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fixtures", action="store_true", help="write the tests' fixtures instead")
    names = [section.__name__ for section in SECTIONS]
    parser.add_argument("--only", nargs="+", choices=names, help="sections to write [all]")
    arguments = parser.parse_args()
    chosen = [one for one in SECTIONS if one.__name__ in (arguments.only or names)]
    if arguments.fixtures or set(chosen) & set(NEED_SIMGRID):
        try:
            peer.build()
        except peer.NoPeerError as error:
            print(error, file=sys.stderr)
            return 1
    if arguments.fixtures:
        foreign_checks.write_fixtures()
        return 0
    parts = _parts(PAGE.read_text()) if arguments.only else {}
    for section in chosen:
        print(f"{section.__name__} ...", file=sys.stderr, flush=True)
        title, text = section()
        parts[title] = text.rstrip() + "\n"
    PAGE.write_text(OPENING + "".join(f"\n## {one}\n\n{text}" for one, text in parts.items()))
    return 0


def _parts(page: str) -> dict[str, str]:
    """The sections of a page, by their titles."""
    found = [Section(*part.split("\n\n", 1)) for part in page.split("\n## ")[1:]]
    return {title: text.rstrip() + "\n" for title, text in found}


if __name__ == "__main__":
    sys.exit(main())
