"""``make benchmark``: speed and memory of the project, as one table.

Figures are medians of runs in new processes; README.md describes each. Without ``--only``, they are
written to ``results/benchmark.json``, and a missed target is a failure (not with ``--quick``).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from measurements import (
    LONG_MEASUREMENTS,
    MEASUREMENTS,
    ONLY_WHOLE,
    QUICK,
    Figures,
    Row,
    Sizes,
    beside_simgrid,
)
from prism_common.files import write_json
from process import FailedError, report

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"


def main() -> int:
    arguments = _arguments()
    sizes = QUICK if arguments.quick else Sizes()
    if arguments.repeats:
        sizes = replace(sizes, repeats=arguments.repeats)
    figures: Figures = {"machine": _machine(), "sizes": asdict(sizes)}
    rows: list[Row] = []
    left_out = ONLY_WHOLE if arguments.quick else ()
    only = arguments.only or [name for name in MEASUREMENTS if name not in left_out]
    with tempfile.TemporaryDirectory(prefix="prism-benchmark-") as name:
        for subject, measure in {**MEASUREMENTS, **LONG_MEASUREMENTS}.items():
            if subject in only:
                report(f"measuring {subject} ...")
                try:
                    more_rows, more_figures = measure(Path(name), sizes)
                except FailedError as error:
                    report(f"a measured command failed: {error}")
                    return 1
                rows += more_rows
                figures |= more_figures
    more_rows, more_figures = beside_simgrid(figures)
    figures |= more_figures
    _show(rows + more_rows)
    if not arguments.only:
        result = RESULTS / ("benchmark-quick.json" if arguments.quick else "benchmark.json")
        write_json(result, figures)
        report(f"written: {result.relative_to(ROOT)}")
    return int(not arguments.quick and any(row.met == "no" for row in rows + more_rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, help="runs of each longer measurement [1]")
    parser.add_argument("--quick", action="store_true", help="small sizes; about a minute")
    names, long = [*MEASUREMENTS], [*LONG_MEASUREMENTS]
    help_ = f"measurements: {', '.join(names)} [all of these]; {', '.join(long)}"
    parser.add_argument("--only", nargs="+", choices=names + long, help=help_)
    return parser.parse_args()


def _machine() -> dict[str, object]:
    load = [round(value, 2) for value in os.getloadavg()]
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average_before": load,
    }


def _show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("subject", "measured", "compared with", "ratio", "target", "met")
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
