"""What a repair would give back, by the diagnosis, and what it gives back in a rerun.

Findings of a diagnosis are grouped by culprit: a *repair* makes this part healthy. The diagnosis
predicts the gain: the time that its findings cost, as a share of the time of the job. For a
simulated run the prediction is checked. The scenario is simulated again without the faults of the
repaired part, on the same random draws, and compared with the unchanged one.

A part without a fault needs no rerun: repairing it changes nothing, so the finding was false.
Findings that overlap in steps of one job describe the same lost time; the largest counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from prism_common.errors import Problem, UserError
from prism_common.scratch import working_folder
from prism_sim.faults.base import Culprit
from prism_sim.loading.loader import validate
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.scenario.source import Source
from prism_sim.score.culprits import names_of
from prism_sim.score.jobs import true_job_of
from prism_sim.score.load import Case, load
from prism_sim.studies.whatif import AS_WRITTEN, Contrast, Plan, Variant, without
from prism_sim.world import World


@dataclass(frozen=True)
class Repair:
    """A part that the diagnosis names, and the gain that it predicts.

    Attributes
    ----------
    culprit_kind, culprit : the part.
    causes : causes that the findings give.
    findings : their numbers.
    predicted : for each true job, its time that the repair gives back: seconds, and share.
    faults : numbers of the faults of the scenario that are at this part.
    """

    culprit_kind: str
    culprit: str
    causes: tuple[str, ...]
    findings: tuple[int, ...]
    predicted: dict[str, tuple[float, float]]
    faults: tuple[int, ...]

    @property
    def folder(self) -> str:
        """The folder of the rerun."""
        return "repaired-" + "-".join(map(str, self.faults))


def scenario_of(run: Run) -> Scenario:
    """The scenario of a simulated run, with the faults of its campaign written out.

    Raises
    ------
    UserError : the run was not simulated, or its scenario is no longer valid.
    """
    values = run.read_json(run.manifest).get("scenario") if run.manifest.exists() else None
    if not isinstance(values, dict):
        what, how = (
            "this was not simulated: there is no scenario to repeat",
            "name a run of prism-sim run",
        )
        raise UserError(Problem(what, str(run.manifest), how))
    return validate(Source(str(run.manifest), values)).scenario.without_draws


def repairs_of(run: Run, scenario: Scenario) -> list[Repair]:
    """The repairs that the diagnosis of ``run`` suggests, the largest predicted gain first.

    Raises
    ------
    UserError : the run has no diagnosis, or the diagnosis no findings.
    """
    case = load(run)
    findings, jobs = case.diagnosis["findings"], true_job_of(case)
    if not len(findings):
        what = "the diagnosis has no findings: there is nothing to repair"
        raise UserError(Problem(what, str(run.diagnosis_folder)))
    parts, times_s = _parts_of_faults(case, scenario), _times_s(case.diagnosis["steps"])
    found = []
    for (kind, culprit), part in findings.groupby(["culprit_kind", "culprit"], sort=False):
        predicted = {
            jobs.get(str(job), str(job)): _gain(rows, times_s.get(str(job), 0.0))
            for job, rows in part.groupby("job")
        }
        faults = tuple(n for n, names in enumerate(parts) if culprit in names)
        causes = tuple(dict.fromkeys(part["cause"].astype(str)))
        numbers = tuple(int(number) for number in part["finding"])
        found.append(Repair(str(kind), str(culprit), causes, numbers, predicted, faults))
    return sorted(found, key=lambda one: -max(s for s, _ in one.predicted.values()))


def plan_repairs(scenario: Scenario, repairs: Sequence[Repair]) -> Plan:
    """The unchanged scenario, and one without the faults of each repaired part."""
    variants = {AS_WRITTEN: Variant(AS_WRITTEN, scenario)}
    contrasts = []
    for repair in repairs:
        if repair.faults:
            folder = repair.folder
            variants[folder] = Variant(folder, without(scenario, repair.faults))
            contrasts.append(Contrast(f"repair of {repair.culprit}", AS_WRITTEN, folder))
    return Plan(tuple(variants.values()), tuple(contrasts), "repairs")


def checked(repairs: Sequence[Repair], costs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each repair and job the predicted gain, and that of the rerun.

    ``costs`` are those of :func:`prism_sim.studies.costs.compare`.
    """
    return [row for repair in repairs for row in _checked(repair, costs)]


def _checked(repair: Repair, costs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    measured = {
        job["job"]: job
        for cost in costs
        if repair.faults and cost["without"] == repair.folder
        for job in cost["jobs"]
    }
    also = [job for job, cost in measured.items() if cost["extra_s"]]
    for job in dict.fromkeys([*repair.predicted, *also]):
        seconds, share = repair.predicted.get(job, (0.0, 0.0))
        cost = measured.get(job)
        time_s = cost["step_s_with"] * cost["steps"] if cost else 0.0
        yield {
            "culprit_kind": repair.culprit_kind,
            "culprit": repair.culprit,
            "causes": list(repair.causes),
            "findings": list(repair.findings),
            "faults": list(repair.faults),
            "job": job,
            "predicted_s": seconds,
            "predicted_share": share,
            "rerun_s": cost["extra_s"] if cost else 0.0,
            "rerun_share": cost["extra_s"] / time_s if cost and time_s else 0.0,
            "gpu_hours": cost["gpu_hours"] if cost else 0.0,
        }


def _parts_of_faults(case: Case, scenario: Scenario) -> list[frozenset[str]]:
    """For each fault, every name of a part whose repair ends it."""
    servers: dict[str, set[str]] = {}
    for endpoint in case.topology.get("endpoints", []):
        servers.setdefault(str(endpoint.get("server")), set()).add(endpoint["address"])
    parts = []
    for culprit in _culprits(scenario):
        names = names_of(case, (culprit.kind, culprit.name))
        inside = {server for server, addresses in servers.items() if addresses & names}
        parts.append(names | inside)
    return parts


def _culprits(scenario: Scenario) -> list[Culprit]:
    """The culprit of each fault; nothing is simulated."""
    with working_folder() as folder:
        world = World(scenario, folder / "flows.parquet", folder / "spans.parquet")
        return [active.fault.culprit(world.faults.target) for active in world.faults.all]


def _times_s(steps: pd.DataFrame) -> dict[str, float]:
    """Time from the first to the last step that the diagnosis found, by found job [s]."""
    borders = steps.groupby("job").agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    times_s = (borders["end_ns"] - borders["start_ns"]) / 1e9
    return {str(job): float(time_s) for job, time_s in times_s.items()}


def _gain(findings: pd.DataFrame, time_s: float) -> tuple[float, float]:
    """Time that the findings of one part cost one job [s], and its share of the job's time."""
    lost_ns: list[float] = []
    end = -1
    columns = findings.sort_values("first_step")[["first_step", "last_step", "cost"]]
    for first, last, cost_ns in columns.to_numpy(float).tolist():
        if first > end or not lost_ns:
            lost_ns.append(0.0)
        lost_ns[-1] = max(lost_ns[-1], cost_ns)
        end = max(end, last)
    lost_s = sum(lost_ns) / 1e9
    return lost_s, lost_s / time_s if time_s else 0.0
