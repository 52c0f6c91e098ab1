"""The scorer: compares a diagnosis with the truth, and says in figures how good it is.

One module for each part, with its definitions at its head: :mod:`~prism_sim.score.jobs`,
:mod:`~prism_sim.score.pairs`, :mod:`~prism_sim.score.parallelism`,
:mod:`~prism_sim.score.timeline`, :mod:`~prism_sim.score.faults`. Each declares its figures
(:mod:`~prism_sim.score.declare`); together they are the :data:`CATALOGUE`. Fractions lie in
[0, 1], times are in nanoseconds, and what is undefined is ``null``. A further part is one more
module and one field of :class:`Score`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from llmprism.errors import Problem, UserError
from prism_sim.run_folder import Run
from prism_sim.score.catalogue import Catalogue
from prism_sim.score.declare import Figure, Table, Words, declared
from prism_sim.score.encoding import flatten, from_json, to_json
from prism_sim.score.faults import FaultsScore, score_faults
from prism_sim.score.jobs import JobsScore, score_jobs
from prism_sim.score.load import Case, load
from prism_sim.score.pairs import PairsScore, score_pairs
from prism_sim.score.parallelism import ParallelismScore, score_parallelism
from prism_sim.score.timeline import TimelineScore, score_timeline

SCHEMA_VERSION = 1

_INTAKE = (
    Figure("FIELD", "flow records, as the diagnoser counted them"),
    Figure("FIELD.REASON", "flow records, as the diagnoser counted them, by reason"),
)
_ROWS = (Figure("SIDE.TABLE", "rows of a table of the truth or the diagnosis"),)


@dataclass(frozen=True)
class Meta:
    """What was compared."""

    schema: Annotated[int, Words("version of the keys of score.json")]
    method: Annotated[str | None, Words("method of the diagnosis")]
    intake: Annotated[dict[str, Any], Table(_INTAKE)]
    rows: Annotated[dict[str, dict[str, int]], Table(_ROWS)]


@dataclass(frozen=True)
class Score:
    """The score of one diagnosis, in the parts and the order of ``score.json``."""

    jobs: JobsScore
    pairs: PairsScore
    parallelism: ParallelismScore
    timeline: TimelineScore
    faults: FaultsScore
    meta: Meta

    def __getitem__(self, part: str) -> Any:
        """A part as plain values, with the keys of ``score.json``."""
        return self.to_json()[part]

    def to_json(self) -> dict[str, Any]:
        """The content of ``score.json``."""
        content: dict[str, Any] = to_json(self)
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any], where: str = "score.json") -> Score:
        """The score that ``content`` holds.

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
        """Every figure by its path; what is undefined is None."""
        return flatten(self.to_json())

    def _repr_html_(self) -> str:
        """The score in a notebook."""
        from prism_sim.score.summary import score_html

        return score_html(self)


CATALOGUE = Catalogue(tuple(declared(Score)))
"""Every figure of ``score.json``."""


def score_run(run: Run) -> Score:
    """Compare the diagnosis of ``run`` with its truth; write ``score.json`` and return it.

    Nothing else in the folder changes, and nothing at all if the score cannot be computed.

    Raises ``UserError`` if a table of either is missing or not readable.
    """
    score = score_case(load(run))
    run.write_json(run.score, score.to_json())
    return score


def read_score(run: Run) -> Score | None:
    """The score that was saved for ``run``, if there is one."""
    if not run.score.exists():
        return None
    return Score.from_json(run.read_json(run.score), str(run.score))


def score_case(case: Case) -> Score:
    """All parts of the score of ``case``."""
    return Score(
        jobs=score_jobs(case),
        pairs=score_pairs(case),
        parallelism=score_parallelism(case),
        timeline=score_timeline(case),
        faults=score_faults(case),
        meta=_meta(case),
    )


def _meta(case: Case) -> Meta:
    sides = (("truth", case.truth), ("diagnosis", case.diagnosis))
    return Meta(
        schema=SCHEMA_VERSION,
        method=case.intake.get("method", case.manifest.get("method")),
        intake=case.intake,
        rows={side: {name: len(frame) for name, frame in tables.items()} for side, tables in sides},
    )


__all__ = ["CATALOGUE", "SCHEMA_VERSION", "Score", "read_score", "score_case", "score_run"]
