"""Write ``results/reference/fabric.md``: the fabric compared with closed forms and other tools.

``python benchmarks/crosscheck.py`` takes a few minutes. With ``--fixtures`` it writes the files of
``tests/theory/test_foreign.py`` instead. Both need SimGrid (see ``peer.py``).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import foreign_checks
import own_checks
import peer
import port_checks

PAGE = Path(__file__).parent.parent / "results" / "reference" / "fabric.md"
OPENING = """# Checks of the fabric

This page is made by `python benchmarks/crosscheck.py`, so do not edit it. The text says which
figures of other tools are quoted and not computed here.
"""
SECTIONS = (
    own_checks.closed_forms,
    foreign_checks.same_flows,
    foreign_checks.contention,
    own_checks.chunks_of_unequal_hops,
    own_checks.rings_that_collide,
    own_checks.nccl_tests,
    port_checks.ports_and_domains,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fixtures", action="store_true", help="write the tests' fixtures instead")
    arguments = parser.parse_args()
    try:
        peer.build()
    except peer.NoPeerError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.fixtures:
        foreign_checks.write_fixtures()
        return 0
    page = OPENING
    for section in SECTIONS:
        print(f"{section.__name__} ...", file=sys.stderr, flush=True)
        title, text = section()
        page += f"\n## {title}\n\n{text}"
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
