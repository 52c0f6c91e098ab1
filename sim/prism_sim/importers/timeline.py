"""A measured timeline of operations: the compute times of a job, step by step.

The columns are those of ByteDance's StragglerAnalysis traces: one row an operation, with the
rank's place (``dp_rank``, ``stage``), ``step``, ``optype``, ``duration`` [s], model chunk ``mc``
and micro-batch ``mb_id``. Durations of forwards, backwards and updates are used as measured;
communication is simulated. The file contains no sizes, so message sizes follow from the job's
model.

Gradient clipping waits for the norm of all ranks, so only the shortest clipping of a step is
work; it is added to the update of every rank.

Reference: Lin et al., Understanding stragglers in large model training using what-if analysis,
OSDI'25; https://github.com/ByteDance-Seed/StragglerAnalysis.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from prism_common.errors import Problem, UserError
from prism_sim.importers.base import Remark, TraceFile, TraceProblems, contents, unread
from prism_sim.scenario.timings import LONGEST_NS, Timings

if TYPE_CHECKING:
    import pandas as pd

PASSES = ("forward-compute", "backward-compute")
_UPDATE, _CLIP = "optimizer", "optimizer-clip-main-grad"
_COLUMNS = ("dp_rank", "stage", "step", "optype", "duration", "mc", "mb_id")
_PLACE = ["step", "stage", "dp_rank"]


class MeasuredTimeline(TraceFile):
    """Compute times from a measured timeline of operations (Parquet or CSV)."""

    content: ClassVar[str] = "timings"

    kind: Literal["timeline"] = "timeline"
    timings: Timings | None = None
    """The converted content; filled in when the file is read."""

    def read(self, path: Path, _remark: Remark = unread) -> Timings:
        frame = _table(path)
        found = TraceProblems()
        _check_columns(frame, str(path), found)
        found.refuse()
        _check_values(frame, str(path), found)
        found.refuse()
        sizes = _sizes(frame)
        _check_complete(frame, sizes, str(path), found)
        found.refuse()
        return _timings(frame, sizes)

    def fills(self, content: Any) -> dict[str, Any]:
        steps, stages, replicas, rows, micro_batches = content.shape
        sizes = {"steps": steps, "dp": replicas, "micro_batches": micro_batches}
        chunks = rows // len(PASSES)
        return sizes | {"pp": stages} | ({"chunks": chunks} if chunks > 1 else {})


def _table(path: Path) -> pd.DataFrame:
    import io

    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    raw = contents(path)
    try:
        if raw[:4] == b"PAR1":
            frame: pd.DataFrame = pq.read_table(io.BytesIO(raw)).to_pandas()
        else:
            frame = pd.read_csv(io.BytesIO(raw))
    except (pa.ArrowException, ValueError, OSError, pd.errors.ParserError) as error:
        what = f"not a readable table: {str(error).splitlines()[0] if str(error) else 'broken'}"
        how = "a timeline is a Parquet or CSV file with one row an operation"
        raise UserError(Problem(what, str(path), how)) from error
    return frame


def _check_columns(frame: pd.DataFrame, where: str, found: TraceProblems) -> None:
    from pandas.api.types import is_numeric_dtype

    for name in _COLUMNS:
        if name not in frame.columns:
            has = ", ".join(map(str, list(frame.columns)[:12]))
            found.add(f"there is no column {name!r}", where, f"the file has: {has}")
        elif name != "optype" and not is_numeric_dtype(frame[name]):
            found.add(f"column {name!r} holds no numbers", where)


def _check_values(frame: pd.DataFrame, where: str, found: TraceProblems) -> None:
    import numpy as np

    used = frame[frame["optype"].isin([*PASSES, _UPDATE, _CLIP])]
    for name in PASSES:
        if not (used["optype"] == name).any():
            known = ", ".join(map(str, frame["optype"].unique()[:6]))
            found.add(f"there is no operation {name!r}", where, f"the file has: {known}")
    for name in (*_PLACE, "mc", "mb_id"):
        numbers = used[name] if name in _PLACE else used.loc[used["optype"].isin(PASSES), name]
        wrong = ~(numbers.ge(0) & numbers.mod(1).eq(0))
        if wrong.any():
            at = int(np.flatnonzero(frame.index.isin(wrong[wrong].index))[0])
            what = f"{name} is {numbers[wrong].iloc[0]} in row {at}; it must be 0, 1, ..."
            found.add(what, f"{where}:row {at}")
    wrong = ~used["duration"].between(0, LONGEST_NS / 1e9)
    if wrong.any():
        at = int(np.flatnonzero(frame.index.isin(wrong[wrong].index))[0])
        what = f"the duration in row {at} is {used['duration'][wrong].iloc[0]}"
        found.add(what, f"{where}:row {at}", "durations are seconds")
    if "tp_rank" in frame.columns and frame["tp_rank"].nunique() > 1:
        what = "there are several tensor-parallel ranks; they share one timeline in a job"
        found.add(what, where, "keep the rows of one tensor-parallel rank")


def _sizes(frame: pd.DataFrame) -> dict[str, int]:
    passes = frame[frame["optype"].isin(PASSES)]
    return {name: int(passes[name].max()) + 1 for name in ("stage", "dp_rank", "mc", "mb_id")}


def _check_complete(
    frame: pd.DataFrame, sizes: dict[str, int], where: str, found: TraceProblems
) -> None:
    """Every pass of every micro-batch must be there exactly once."""
    steps = frame.loc[frame["optype"].isin(PASSES), "step"].unique()
    of_rank = sizes["mc"] * sizes["mb_id"]
    for name, expected in ((PASSES[0], of_rank), (PASSES[1], of_rank), (_UPDATE, 1)):
        rows = frame[frame["optype"] == name]
        count = rows.groupby(_PLACE, observed=True).size()
        wanted = len(steps) * sizes["stage"] * sizes["dp_rank"]
        if name == _UPDATE and not len(rows):
            continue
        if len(count) != wanted:
            what = f"{name} exists for {len(count)} of {wanted} ranks and steps"
            how = "every rank (dp_rank, stage) must be present in every step"
            found.add(what, where, how)
        for key, number in count[count != expected].head(3).items():
            place = ", ".join(f"{n} {k}" for n, k in zip(_PLACE, cast(Any, key), strict=True))
            what = f"{number} x {name} in {place}, but {expected} are expected"
            found.add(what, where, "every micro-batch and chunk must be present once")
        twice = rows.duplicated([*_PLACE, "mc", "mb_id"])
        if name in PASSES and twice.any():
            found.add(f"{name} occurs twice for one micro-batch", where)


def _timings(frame: pd.DataFrame, sizes: dict[str, int]) -> Timings:
    import numpy as np

    frame = frame[frame["optype"].isin([*PASSES, _UPDATE, _CLIP])]
    frame = frame.assign(ns=np.rint(frame["duration"].to_numpy(float) * 1e9).astype(np.int64))
    numbers = {step: i for i, step in enumerate(sorted(frame["step"].unique()))}
    frame["step"] = frame["step"].map(numbers)
    shape = (len(numbers), sizes["stage"], sizes["dp_rank"])
    passes = np.zeros((*shape, len(PASSES), sizes["mc"], sizes["mb_id"]), np.int64)
    for kind, name in enumerate(PASSES):
        rows = frame[frame["optype"] == name]
        step, stage, replica, mc, mb = (rows[c].to_numpy(int) for c in (*_PLACE, "mc", "mb_id"))
        passes[step, stage, replica, kind, mc, mb] = rows["ns"]
    update = np.zeros(shape, np.int64)
    rows = frame[frame["optype"] == _UPDATE]
    update[tuple(rows[c].to_numpy(int) for c in _PLACE)] = rows["ns"]
    clip = frame[frame["optype"] == _CLIP].groupby("step")["ns"].min()
    update[clip.index.to_numpy(int)] += clip.to_numpy()[:, None, None]
    passes = passes.reshape(*shape, len(PASSES) * sizes["mc"], sizes["mb_id"])
    return Timings.model_validate({"passes_ns": passes.tolist(), "optimizer_ns": update.tolist()})
