"""``prism-sim whatif``: the cost of each fault, the effect of a change, or the gain of repairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prism_common.quantities import counted, percent
from prism_sim.commands.options import Processes, Seed, Settings, folder_name, out_folder
from prism_sim.commands.session import Session

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from prism_sim.studies.repairs import Repair
    from prism_sim.studies.whatif import Plan


FaultyScenario = Annotated[
    str | None,
    typer.Argument(
        metavar="SCENARIO",
        help="A YAML file, a bundled name such as tiny/quickstart, or - for standard input.",
    ),
]
FromRun = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RUN",
        parser=folder_name,
        help="A simulated and diagnosed run, in place of SCENARIO: the gain of repairing each "
        "part that a finding names.",
    ),
]
AnswerFolder = Annotated[
    Path | None,
    out_folder(
        "Folder to write. Default: results/whatif/SCENARIO/SEED, and +PATH=VALUE of a change."
    ),
]


def whatif(
    session: Session,
    settings: Settings,
    scenario: FaultyScenario = None,
    from_run: FromRun = None,
    seed: Seed = None,
    out: AnswerFolder = None,
    processes: Processes = None,
) -> None:
    """Report what each fault costs, what a change gives, or what repairs would give back.

    \b
    whatif SCENARIO                   with and without each fault
    whatif SCENARIO --set PATH=VALUE  changed and unchanged
    whatif --from RUN                 repairs by findings: the predicted gain,
                                      and that of a rerun without the faults

    The runs compared share every random draw, so they differ by the change alone. For each job:
    step time, extra time, GPU-hours, and effective training time ratio (the share of the time
    since the job's start that its ranks spent in steps that count; lost steps, checkpoints, stalls
    between steps and the time without a running attempt lower it).

    Writes whatif.json, and whatif.png, a picture of the costs and of the affected steps.
    """
    if (scenario is None) == (from_run is None) or (from_run and (settings or seed is not None)):
        raise typer.BadParameter("give either SCENARIO, or --from RUN without --set and --seed")
    from prism_sim.loading.loader import parse_override
    from prism_sim.studies.whatif import planned

    changes = dict(parse_override(text) for text in settings)
    asked = (
        _of_run(from_run) if from_run
        else _Asked(planned(str(scenario), seed, changes, settings))
    )  # fmt: skip
    folder = out or asked.plan.folder
    _show(session, asked, folder, _compared(session, asked, folder, processes))


def _show(session: Session, asked: _Asked, folder: Path, found: dict[str, Any]) -> None:
    """Print what was found, and where it is."""
    files = {"runs": str(folder), "figure": str(folder / "whatif.png")}
    lines = [f"{key}: {value}" for key, value in files.items()]
    shown = [part for cost in found["costs"] for part in cost_table(cost)]
    if asked.repairs is not None:
        shown.insert(0, _repairs_table(found["repairs"]))
        lines = [*_sentences(found), *lines]
    session.result({**files, **found}, *shown, *_without_effect(found["costs"]), *lines)


@dataclass(frozen=True)
class _Asked:
    """The simulations to compare, and the repairs that they check; None: no diagnosis."""

    plan: Plan
    repairs: list[Repair] | None = None


def _of_run(folder: Path) -> _Asked:
    from prism_sim.commands.stages import existing
    from prism_sim.studies import repairs

    run = existing(folder)
    scenario = repairs.scenario_of(run)
    found = repairs.repairs_of(run, scenario)
    return _Asked(repairs.plan_repairs(scenario, found), found)


def _compared(
    session: Session, asked: _Asked, folder: Path, processes: int | None
) -> dict[str, Any]:
    """Simulate, compare, and write the results; returns the content of ``whatif.json``."""
    from prism_sim.products import exclusive, stage_files
    from prism_sim.render.paint import write_png
    from prism_sim.run_folder import Run
    from prism_sim.studies import costs, repairs, whatif, whatif_figure
    from prism_sim.studies.pool import default_processes

    with exclusive(folder):
        with session.stage(counted(len(asked.plan.variants), "run")) as progress:
            whatif.run_plan(asked.plan, folder, processes or default_processes(), progress)
        found = costs.compare(asked.plan, folder)
        if asked.repairs is not None:
            found["repairs"] = repairs.checked(asked.repairs, found["costs"])
        with stage_files(folder, "whatif") as aside:
            Run(aside).write_json(aside / whatif.RESULT, found)
            write_png(whatif_figure.draw(Run(aside)), aside / whatif.PICTURE)
    return found


def _sentences(found: dict[str, Any]) -> list[str]:
    """What each repair would give back, and the rerun's answer."""
    lines = []
    for row in found["repairs"]:
        rerun = f"the rerun gives back {percent(row['rerun_share'])}"
        if not row["faults"]:
            rerun = "the scenario has no fault there: the rerun is the same"
        lines.append(
            f"repairing {row['culprit']} would give back {percent(row['predicted_share'])} of "
            f"the time of job {row['job']} ({row['predicted_s']:.3g} s); {rerun}"
        )
    return lines


def _repairs_table(repairs: list[dict[str, Any]]) -> Table:
    from rich.text import Text

    heads = ("job", "predicted [s]", "share", "rerun [s]", "share", "GPU-hours", "faults removed")
    table = _empty_table("repair of", heads)
    for row in repairs:
        causes = ", ".join(row["causes"])
        table.add_row(
            Text(f"{row['culprit']} ({causes})"), Text(row["job"]),
            f"{row['predicted_s']:.4g}", percent(row["predicted_share"]),
            f"{row['rerun_s']:.4g}", percent(row["rerun_share"]), f"{row['gpu_hours']:.3g}",
            ", ".join(f"no. {number}" for number in row["faults"]) or "none",
        )  # fmt: skip
    return table


def cost_table(cost: dict[str, Any]) -> tuple[Text, Table]:
    """The name of a change, and a row for each job."""
    from rich.text import Text

    heads = ("steps", "step [s]", "without", "change", "extra [s]", "GPU-hours", "effective",
             "without")  # fmt: skip
    table = _empty_table("job", heads)
    for job in cost["jobs"]:
        table.add_row(
            Text(job["job"]), str(job["steps"]),
            f"{job['step_s_with']:.4g}", f"{job['step_s_without']:.4g}",
            _change(job["slower"]), f"{job['extra_s']:+.4g}", f"{job['gpu_hours']:+.4g}",
            percent(job["effective_ratio_with"]), percent(job["effective_ratio_without"]),
        )  # fmt: skip
    if len(cost["jobs"]) > 1:
        table.add_row("in all", *[""] * 5, f"{cost['gpu_hours']:+.4g}", "", "")
    return Text(cost["name"], style="bold"), table


def _change(slower: float | None) -> str:
    """A difference of step times in words."""
    if slower is None:
        return "-"
    if slower == 0:
        return "none"
    return f"{percent(abs(slower), 2)}\n{'slower' if slower > 0 else 'faster'}"


def _without_effect(costs: list[dict[str, Any]]) -> list[str]:
    """A line for each change after which every job took exactly as long."""
    return [
        f"{cost['name']}: it changed nothing in this run"
        for cost in costs
        if cost["jobs"] and all(job["slower"] == 0 and job["extra_s"] == 0 for job in cost["jobs"])
    ]


def _empty_table(first: str, heads: tuple[str, ...]) -> Table:
    from llmprism.terminal import empty_table

    table = empty_table(padding=0)
    table.add_column(first, overflow="fold")
    for head in heads:
        if head == "job":
            table.add_column(head, overflow="fold")
        else:  # numbers in one line each, however narrow the terminal
            table.add_column(head.replace(" ", "\n"), justify="right", no_wrap=True)
    return table
