"""The scorer: compares a diagnosis with the truth and computes figures of accuracy.

One module for each part, with its definitions at the top: :mod:`~prism_sim.score.jobs`,
:mod:`~prism_sim.score.pairs`, :mod:`~prism_sim.score.parallelism`,
:mod:`~prism_sim.score.timeline`, :mod:`~prism_sim.score.faults`. Each declares its figures
(:mod:`~prism_sim.score.declare`); together they are the :data:`CATALOGUE`. Fractions are in
[0, 1], times are in nanoseconds, and undefined figures are ``null``. A new part is one new
module and one field of :class:`Score`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from prism_common.errors import Problem, UserError
from prism_sim.run_folder import Run
from prism_sim.scenario.words import did_you_mean
from prism_sim.score.declare import Catalogue, Figure, Table, Words, declared
from prism_sim.score.encoding import flatten, from_json, to_json
from prism_sim.score.faults import FaultsScore, score_faults
from prism_sim.score.jobs import JobsScore, score_jobs
from prism_sim.score.load import Case, load
from prism_sim.score.pairs import PairsScore, score_pairs
from prism_sim.score.parallelism import ParallelismScore, score_parallelism
from prism_sim.score.timeline import TimelineScore, score_timeline
from prism_sim.score.unanswered import JUDGED_BY, undefined

SCHEMA_VERSION = 1

_INTAKE = (
    Figure("FIELD", "flow records, counted by the diagnoser"),
    Figure("FIELD.REASON", "flow records, counted by the diagnoser, by reason"),
)
_ROWS = (Figure("SIDE.TABLE", "rows of a table of the truth or the diagnosis"),)


@dataclass(frozen=True)
class Meta:
    """The compared run."""

    schema: Annotated[int, Words("version of the keys of score.json")]
    method: Annotated[str | None, Words("method of the diagnosis")]
    intake: Annotated[dict[str, Any], Table(_INTAKE)]
    rows: Annotated[dict[str, dict[str, int]], Table(_ROWS)]
    left_out: Annotated[list[str], Words("tables that the method does not fill")]


@dataclass(frozen=True)
class Score:
    """The score of one diagnosis; parts are in the order of ``score.json``."""

    jobs: JobsScore
    pairs: PairsScore
    parallelism: ParallelismScore
    timeline: TimelineScore
    faults: FaultsScore
    meta: Meta

    def __getitem__(self, part: str) -> Any:
        """A part as plain values with the keys of ``score.json``, or one figure by its path.

        Raises
        ------
        UserError : there is no such part, and no such figure.
        """
        content = self.to_json()
        known = {**self.figures, **content}
        if part not in known:
            how = did_you_mean(part, self.figures if "." in part else content)
            raise UserError(Problem(f"a score has no part or figure {part!r}", "", how))
        return known[part]

    def to_json(self) -> dict[str, Any]:
        """The content of ``score.json``."""
        content: dict[str, Any] = to_json(self)
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any], where: str = "score.json") -> Score:
        """The score with the given ``content``.

        Raises
        ------
        UserError : a key is missing or has a value of the wrong type.
        """
        try:
            return from_json(cls, content)
        except ValueError as error:
            how = "compute it again with: prism-sim score FOLDER"
            raise UserError(Problem(f"not a score: {error}", where, how)) from None

    @cached_property
    def figures(self) -> dict[str, float | None]:
        """Every figure by its path; None if undefined."""
        return flatten(self.to_json())

    def _repr_html_(self) -> str:
        """The score in a notebook."""
        from prism_sim.score.summary import score_html

        return score_html(self)


CATALOGUE = Catalogue(tuple(declared(Score)))
"""Every figure of ``score.json``."""


def score_run(run: Run) -> Score:
    """Compare the diagnosis of ``run`` with its truth; write ``score.json`` and return it.

    No other file in the folder changes. If the score cannot be computed, no file changes.

    Raises ``UserError`` if a table is missing or not readable.
    """
    score = score_case(load(run))
    run.write_json(run.score, score.to_json())
    return score


def read_score(run: Run) -> Score | None:
    """The saved score of ``run``, if there is one."""
    if not run.score.exists():
        return None
    return Score.from_json(run.read_json(run.score), str(run.score))


def score_case(case: Case) -> Score:
    """All parts of the score of ``case``; figures of tables that were left out are undefined."""
    meta = _meta(case)
    score = Score(
        jobs=score_jobs(case),
        pairs=score_pairs(case),
        parallelism=score_parallelism(case),
        timeline=score_timeline(case),
        faults=score_faults(case),
        meta=meta,
    )
    if not meta.left_out:
        return score
    parts = {part: undefined(getattr(score, part), part, meta.left_out) for part in JUDGED_BY}
    return replace(score, **parts)


def _meta(case: Case) -> Meta:
    sides = (("truth", case.truth), ("diagnosis", case.diagnosis))
    return Meta(
        schema=SCHEMA_VERSION,
        method=case.intake.get("method", case.manifest.get("method")),
        intake={name: value for name, value in case.intake.items() if name != "left_out"},
        rows={side: {name: len(frame) for name, frame in tables.items()} for side, tables in sides},
        left_out=list(case.intake.get("left_out", ())),
    )


__all__ = ["CATALOGUE", "SCHEMA_VERSION", "Score", "read_score", "score_case", "score_run"]
