"""Results of a sweep and of a what-if comparison as objects for programs and notebooks."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_common.quantities import percent
from prism_sim.products import exclusive, stage_files
from prism_sim.run_folder import Run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Sweep:
    """A finished study.

    Attributes
    ----------
    folder : its files; ``sweep.parquet`` is the table.
    table : a row for each run: its place, seed, method, figures, and the error if it failed.
    """

    folder: Path
    table: pd.DataFrame = field(repr=False)

    def _repr_html_(self) -> str:
        return str(self.table.drop(columns=["key"]).to_html(index=False, max_rows=40))


@dataclass(frozen=True)
class Costs:
    """A what-if comparison.

    Attributes
    ----------
    folder : its files; ``whatif.json`` has the costs.
    costs : for each change its name, and the costs of each job.
    """

    folder: Path
    costs: list[dict[str, Any]] = field(repr=False)

    @property
    def table(self) -> pd.DataFrame:
        """A row for each change and job."""
        import pandas as pd

        rows = [{"change": cost["name"], **job} for cost in self.costs for job in cost["jobs"]]
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        heads = ("change", "job", "slower", "extra [s]", "GPU-hours")
        rows = [
            (row["change"], row["job"], percent(row["slower"], 2), f"{row['extra_s']:+.4g}",
             f"{row['gpu_hours']:+.4g}")
            for row in self.table.to_dict("records")
        ]  # fmt: skip
        lines = [("th", heads), *(("td", row) for row in rows)]
        cells = (
            "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)
            for tag, row in lines
        )
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def run_sweep(name: str, out: Path | None, processes: int | None) -> Sweep:
    """Run the missing points of a study, and write its table."""
    from prism_sim.loading.bundled import find_study
    from prism_sim.studies import sweep
    from prism_sim.studies.pool import default_processes
    from prism_sim.studies.study import points_of, read_study, runs_of

    path = find_study(name)
    study, source = read_study(path)
    folder = out or Path("results") / "sweeps" / path.stem
    at_once = processes or study.processes or default_processes()
    with sweep.own_folder(folder):
        points = points_of(study, source)
        swept = sweep.run_points(points, folder, at_once, total=runs_of(study))
        table = sweep.table_of(study, swept.rows, folder)
        with stage_files(folder, sweep.STAGE) as aside:
            sweep.write_table(study, table, aside)
    return Sweep(folder, table)


def run_whatif(
    scenario: str,
    changes: dict[str, Any],
    seed: int | None,
    out: Path | None,
    processes: int | None,
) -> Costs:
    """Simulate with and without each fault, or with and without ``changes``."""
    from prism_sim.studies import costs, whatif
    from prism_sim.studies.pool import default_processes

    plan = whatif.planned(scenario, seed, changes)
    folder = out or plan.folder
    with exclusive(folder):
        whatif.run_plan(plan, folder, processes or default_processes())
        found = costs.compare(plan, folder)
        with stage_files(folder, "whatif") as aside:
            Run(aside).write_json(aside / whatif.RESULT, found)
    return Costs(folder, found["costs"])
