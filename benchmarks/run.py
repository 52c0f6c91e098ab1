"""``make benchmark``: speed and memory of the whole project, as one table.

Every figure is the median of runs in fresh processes, and where there is a peer it runs in
turn with ours. README.md says how each thing is measured. All figures go to
``results/benchmark.json`` as well, unless only some are asked for (``--only``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

from measurements import MEASUREMENTS, Figures, Row
from process import FailedError, tell

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "results" / "benchmark.json"


def main() -> int:
    arguments = _arguments()
    figures: Figures = {"machine": _machine(), "repeats": arguments.repeats}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="prism-benchmark-") as name:
        for what, measure in MEASUREMENTS.items():
            if what in arguments.only:
                tell(f"measuring {what} ...")
                try:
                    more, figures_of_it = measure(Path(name), arguments.repeats)
                except FailedError as error:
                    tell(f"what was to be measured failed: {error}")
                    return 1
                rows += more
                figures |= figures_of_it
    _show(rows)
    if set(arguments.only) == set(MEASUREMENTS):
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(figures, indent=1) + "\n")
        tell(f"written: {RESULT.relative_to(ROOT)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="runs of each thing [3]")
    names = [*MEASUREMENTS]
    help_ = f"of {', '.join(names)} [all]"
    parser.add_argument("--only", nargs="+", choices=names, default=names, help=help_)
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

    table = Table("what", "measured", "compared with", "ratio", "wanted", "met")
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
