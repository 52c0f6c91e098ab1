"""Write the reference tables below results/reference from runs made here and now.

    python scripts/reference.py captures    the paper method on the committed real captures
    python scripts/reference.py scores      bundled scenarios, several seeds, as in the README

Every figure in those files comes from this program; nothing in them is written by hand but
the sentences around the tables.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean
from typing import Any

from llmprism.pipeline import diagnose_files
from prism_sim.run import Run
from prism_sim.scenario.loading import load
from prism_sim.score import score_run
from prism_sim.simulate import simulate

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "tests" / "fixtures" / "captures"
REFERENCE = ROOT / "results" / "reference"
SEEDS = (1, 2, 3, 4, 5)

CAPTURES_HEAD = """\
# The paper method on real captures

Real PyTorch training traffic, captured at the hosts' leaf ports (`tests/fixtures/captures`),
diagnosed by `method="paper"` and scored by the same scorer as simulated runs. Made by
`python scripts/reference.py captures`; a test compares.
"""
CAPTURES_TAIL = """
How to read it, and why the figures are as they are:

- *jobs*: Algorithm 1 puts into one job whatever shares an endpoint. The resolver that the DNS
  look-ups go to is no address of the topology, so those records are refused at the door (column
  *set aside*) and jobs are told apart. What a job's hosts send each other is a job, whatever it
  carries.
- *pair types*: the library connects every host with every other, so more than half of the pairs
  seen carried nothing but connection set-up and acknowledgements; the published method has no
  filter for them. Most of them have several sizes in a step and read as data-parallel, which joins
  the groups of different stages, and the refinement then turns every pipeline pair between them
  (trap 4): `b_dp4pp2` falls from 0.96 (5 ms) and 1.00 (2 ms) to 0.67. Where pipeline pairs are
  misread at once (`d_fault_rank_link`), records hold several messages or parts of one: sizes are
  an artefact of where records are cut.
- *steps*: with all pairs data-parallel, what cuts a rank's line are gaps in the whole of its
  traffic, not those between its all-reduces. Coarse records merge steps, fine ones split them (the
  acknowledgements and messages of one step look like many); neither counts as matched, and each
  such step counts as an error of 100 %.
- *faults*: alarms follow from the steps that were cut, so most of them are false.

`method="paper"` stays as it is: it is the baseline, and this is what it does on real traffic.
"""


def figure(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [list(head), *map(list, rows)]]
    lines.insert(1, "|" + "---|" * len(list(head)))
    return "\n".join(lines) + "\n"


def score_capture(case: Path, flows: str, folder: Path) -> dict[str, Any]:
    """Score the paper method on one capture, in a copy of its folder."""
    shutil.copytree(case, folder)
    shutil.copy(case / flows, folder / "flows.parquet")
    run = Run(folder)
    diagnose_files(run.flows, run.topology, method="paper").write(run.diagnosis_folder)
    return score_run(run)


def captures() -> str:
    rows = []
    with tempfile.TemporaryDirectory() as room:
        for case in sorted(path for path in CAPTURES.iterdir() if path.is_dir()):
            for gap, flows in (("5 ms", "flows.parquet"), ("2 ms", "flows_gap2ms.parquet")):
                s = score_capture(case, flows, Path(room) / f"{case.name}-{gap}")
                rows.append(_capture_row(case.name, gap, s))
    return CAPTURES_HEAD + "\n" + table(CAPTURE_COLUMNS, rows) + CAPTURES_TAIL


CAPTURE_COLUMNS = (
    "capture", "idle gap", "set aside", "jobs exact", "pair types", "without refinement",
    "coverage", "step error", "step error, all", "DP-end error", "faults found", "precision",
)  # fmt: skip


def _capture_row(name: str, gap: str, s: dict[str, Any]) -> list[str]:
    jobs, pairs, timeline, faults = (s[k] for k in ("jobs", "pairs", "timeline", "faults"))
    intake = s["meta"]["intake"]
    return [
        f"`{name}`",
        gap,
        f"{intake['rows'] - intake['kept']} of {intake['rows']}",
        f"{jobs['exact']} of {jobs['true']}",
        figure(pairs["accuracy"]),
        figure(pairs["accuracy_unrefined"]),
        figure(timeline["coverage"]),
        percent(timeline["step_error_mean"]),
        percent(timeline["step_error_all_mean"]),
        percent(timeline["dp_end_error_mean"]),
        f"{faults['detected']} of {faults['injected']}",
        figure(faults["precision"]),
    ]


def scores() -> str:
    rows = []
    for name in ("tiny/clean", "tiny/quickstart", "tiny/pair"):
        results = [_scored(name, seed) for seed in SEEDS]
        rows.append([f"`{name}`", *(_mean_of(results, path) for path in SCORED)])
    head = ["scenario", "jobs", "pair types", "coverage", "step error", "DP-end error", "recall",
            "precision"]  # fmt: skip
    return (
        "# Bundled scenarios, scored\n\n"
        f'Mean over seeds {SEEDS[0]} to {SEEDS[-1]}, `method="paper"`. Made by '
        "`python scripts/reference.py scores`.\n\n" + table(head, rows)
    )


SCORED = (
    "jobs.accuracy",
    "pairs.accuracy",
    "timeline.coverage",
    "timeline.step_error_mean",
    "timeline.dp_end_error_mean",
    "faults.recall",
    "faults.precision",
)


def _scored(name: str, seed: int) -> dict[str, Any]:
    scenario = load(ROOT / "scenarios" / f"{name}.yaml", {"seed": seed})
    with tempfile.TemporaryDirectory() as room:
        run = Run(Path(room))
        simulate(scenario, run)
        diagnose_files(run.flows, run.topology, method="paper").write(run.diagnosis_folder)
        return score_run(run)


def _mean_of(results: list[dict[str, Any]], path: str) -> str:
    part, name = path.split(".")
    values = [r[part][name] for r in results if r[part][name] is not None]
    if not values:
        return "-"
    return percent(mean(values)) if "error" in name else figure(mean(values))


TABLES: dict[str, Callable[[], str]] = {"captures": captures, "scores": scores}


def into_readme(page: str) -> None:
    """Put the table of ``page`` between the README's marks."""
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split("<!-- scores -->\n")
    _, after = rest.split("<!-- /scores -->")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    marked = ["<!-- scores -->", *rows, "<!-- /scores -->"]
    readme.write_text(before + "\n".join(marked) + after)


def main(names: list[str]) -> None:
    for name in names or TABLES:
        page = TABLES[name]()
        (REFERENCE / f"{name}.md").write_text(page)
        print(f"wrote {(REFERENCE / f'{name}.md').relative_to(ROOT)}")
        if name == "scores":
            into_readme(page)


if __name__ == "__main__":
    main(sys.argv[1:])
