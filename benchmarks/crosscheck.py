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
from prism_sim.render.pages import render_page, with_part

PAGE = Path(__file__).parent.parent / "results" / "reference" / "fabric.md"
TEMPLATES = Path(__file__).parent / "templates"
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
    page = PAGE.read_text() if arguments.only else render_page(TEMPLATES, "opening")
    for section in chosen:
        print(f"{section.__name__} ...", file=sys.stderr, flush=True)
        page = with_part(page, render_page(TEMPLATES, section.__name__, **section()))
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
