"""The processes of a trace: slices of the true and of the inferred work of each job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from llmprism.page.activity import WAIT
from llmprism.page.tables import Tables
from prism_common.kinds import COMPUTE
from prism_sim.render import look
from prism_sim.render.trace.selection import Selection
from prism_sim.run_folder import Run
from prism_sim.score.busy import WORK
from prism_sim.score.jobs import members, overlaps
from prism_sim.score.load import rank_rows

_STREAMS = {kind: work for work, kinds in WORK.items() for kind in kinds}
_STREAMS |= {"send_act": "pp send", "send_grad": "pp send"}
_STREAMS |= {"recv_act": "pp receive", "recv_grad": "pp receive"}


@dataclass(frozen=True)
class Process:
    """One process of the trace: slices of some ranks.

    Attributes
    ----------
    name : the name in Perfetto.
    ranks : name of each rank's tracks, by its number in the process.
    slices : columns number (of the rank), stream, name, step, start_ns, end_ns, communication.
    known : whether these slices are the truth.
    """

    name: str
    ranks: dict[int, str]
    slices: pd.DataFrame
    known: bool


_COLUMNS = ["number", "stream", "name", "step", "start_ns", "end_ns", "communication"]


def processes_of(run: Run, chosen: Selection, tables: Tables) -> list[Process]:
    """Truth and reconstruction of each job in turn."""
    shown = chosen.ranks.loc[chosen.with_steps]
    steps = _true_rows(run, chosen, chosen.with_steps, "steps")
    spans = _true_rows(run, chosen, chosen.with_spans, "spans")
    parts_of = ((tables.steps, chosen.with_steps), (tables.spans, chosen.with_spans))
    inferred = [
        table[table["address"].isin(chosen.ranks.loc[rows, "address"])] for table, rows in parts_of
    ]
    stands_for = _stands_for(run, chosen)
    made = []
    for job, mine in shown.groupby("job"):
        if chosen.known:
            made.append(_true_process(str(job), mine, steps, spans))
        for found in sorted(name for name, true in stands_for.items() if true == job):
            parts = [table[table["job"] == found] for table in inferred]
            name = f"job {job}: rebuilt from flows" + (f" ({found})" if chosen.known else "")
            made.append(_inferred_process(name, mine, *parts))
    return made


def _true_rows(run: Run, chosen: Selection, rows: list[int], name: str) -> pd.DataFrame:
    """Rows of a truth table that belong to some ranks, with their rank's ``number``."""
    wanted = chosen.ranks.loc[rows, "rank"].tolist()
    table = look.truth(
        run, name, [("rank", "in", wanted)] if len(rows) < len(chosen.ranks) else None
    )
    table = table.assign(number=rank_rows(chosen.ranks, table) if len(table) else None)
    return table[table["number"].isin(rows)]


def _stands_for(run: Run, chosen: Selection) -> dict[str, str]:
    if not chosen.known:
        return {job: job for job in chosen.ranks["job"].unique()}
    couples = overlaps(members(look.truth(run, "ranks")), members(look.diagnosis(run, "jobs")))
    best = couples.drop_duplicates("found")
    return dict(zip(best["found"], best["true"], strict=True))


def _true_process(
    job: str, ranks: pd.DataFrame, steps: pd.DataFrame, spans: pd.DataFrame
) -> Process:
    labels = "rank " + ranks["rank"].astype(str) + ", " + ranks["address"].astype(str)
    names = dict(zip(ranks.index.tolist(), labels, strict=True))
    steps = steps[steps["number"].isin(names)].assign(stream="steps")
    spans = spans[spans["number"].isin(names)]
    name = spans["kind"].astype(object)
    batched = spans["micro_batch"].notna().to_numpy(bool)
    batch = spans.loc[batched, "micro_batch"].astype("Int64").astype(str)
    name.loc[batched] = name[batched].astype(str) + " " + batch
    spans = spans.assign(stream=spans["kind"].map(_STREAMS).fillna("compute"), name=name)
    slices = pd.concat([steps.assign(name="step " + steps["step"].astype(str)), spans])
    return Process(f"job {job}: truth", names, _completed(slices), True)


def _inferred_process(
    name: str, ranks: pd.DataFrame, steps: pd.DataFrame, spans: pd.DataFrame
) -> Process:
    at = ranks.drop_duplicates("address")
    row_of = dict(zip(at["address"], at.index.tolist(), strict=True))
    names = {row: str(address) for address, row in row_of.items()}
    steps = steps.assign(stream="steps", name="step " + steps["step"].astype(str))
    kind = spans["kind"].astype(object)
    slices = pd.concat([steps, spans.assign(stream=kind.replace(WAIT, COMPUTE), name=kind)])
    slices = slices.assign(number=slices["address"].map(row_of))
    slices = slices.dropna(subset=["number"])
    return Process(name, names, _completed(slices), False)


def _completed(slices: pd.DataFrame) -> pd.DataFrame:
    communication = pd.to_numeric(slices.get("communication", pd.Series(index=slices.index)))
    slices = slices.assign(communication=communication.fillna(-1).astype(np.int64))
    return slices[_COLUMNS].astype({"number": np.int64, "step": np.int64})
