"""``prism-sim whatif``: the cost of each fault, or the effect of a change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from prism_sim.commands.options import (
    Debug,
    Json,
    Processes,
    Quiet,
    ScenarioName,
    Seed,
    Settings,
    out_folder,
)
from prism_sim.commands.session import open_session

if TYPE_CHECKING:
    from rich.table import Table


def whatif(
    scenario: ScenarioName,
    settings: Settings,
    seed: Seed = None,
    out: Annotated[
        Path | None,
        out_folder("Folder to write. Default: results/whatif/SCENARIO/SEED."),
    ] = None,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Report the cost of each fault, or of a change with --set.

    The runs compared share every random draw, so they differ by the change alone.
    """
    with open_session(as_json, quiet, debug) as session:
        from prism_sim.loading.bundled import find
        from prism_sim.loading.loader import load, parse_override
        from prism_sim.products import exclusive, stage_files
        from prism_sim.render.paint import write_png
        from prism_sim.run_folder import Run
        from prism_sim.studies import whatif, whatif_figure
        from prism_sim.studies.pool import default_processes

        path = find(scenario)
        fixed = {} if seed is None else {"seed": seed}
        written = load(path, fixed)
        changes = dict(parse_override(text) for text in settings)
        if changes:
            plan = whatif.plan_change(written, load(path, fixed | changes), settings)
        else:
            plan = whatif.plan_faults(written)
        folder = out or Path("results") / "whatif" / written.name / str(written.seed)
        with exclusive(folder):
            with session.stage(f"{len(plan.variants)} runs") as progress:
                whatif.run_plan(plan, folder, processes or default_processes(), progress)
            found = whatif.compare(plan, folder)
            with stage_files(folder, "whatif") as aside:
                Run(aside).write_json(aside / whatif.RESULT, found)
                write_png(whatif_figure.draw(Run(aside)), aside / whatif.PICTURE)
        files = {"runs": str(folder), "figure": str(folder / whatif.PICTURE)}
        lines = [f"{key}: {value}" for key, value in files.items()]
        session.result({**files, **found}, _table(found["costs"]), *lines)


def _table(costs: list[dict[str, Any]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from llmprism.quantities import percent

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what", overflow="fold")
    for column in ("job", "steps", "step [s]", "without", "slower", "extra [s]", "GPU-hours"):
        table.add_column(column, justify="left" if column == "job" else "right")
    for cost in costs:
        names = iter([cost["name"]])  # on the first row of its block only
        for job in cost["jobs"]:
            table.add_row(
                Text(next(names, "")), Text(job["job"]), str(job["steps"]),
                f"{job['step_s_with']:.4g}", f"{job['step_s_without']:.4g}",
                percent(job["slower"], 2), f"{job['extra_s']:+.4g}", f"{job['gpu_hours']:+.4g}",
            )  # fmt: skip
        if len(cost["jobs"]) > 1:
            table.add_row("", "in all", *[""] * 5, f"{cost['gpu_hours']:+.4g}")
        table.add_section()
    return table
