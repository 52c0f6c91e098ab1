"""The scorer: lays a diagnosis beside the truth and says, in figures, how good it is.

One module a part, each with its definitions at its head: :mod:`~prism_sim.score.jobs`,
:mod:`~prism_sim.score.pairs`, :mod:`~prism_sim.score.parallelism`,
:mod:`~prism_sim.score.timeline`, :mod:`~prism_sim.score.faults`. Fractions lie in [0, 1],
times are in nanoseconds, and what is undefined is ``null``. A further part is one more
module and one line in :data:`PARTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prism_sim.run_folder import Run
from prism_sim.score.faults import score_faults
from prism_sim.score.jobs import score_jobs
from prism_sim.score.load import Case, load
from prism_sim.score.pairs import score_pairs
from prism_sim.score.parallelism import score_parallelism
from prism_sim.score.timeline import score_timeline

SCHEMA_VERSION = 1

PARTS: dict[str, Callable[[Case], dict[str, Any]]] = {
    "jobs": score_jobs,
    "pairs": score_pairs,
    "parallelism": score_parallelism,
    "timeline": score_timeline,
    "faults": score_faults,
}
"""The parts of ``score.json``, in its order."""


def score_run(run: Run) -> dict[str, Any]:
    """Compare the diagnosis of ``run`` with its truth; write ``score.json`` and return it.

    Raises ``UserError`` if a table of either is missing or not readable.
    """
    case = load(run)
    score = {name: part(case) for name, part in PARTS.items()} | {"meta": _meta(case)}
    run.write_json(run.score, score)
    return score


def _meta(case: Case) -> dict[str, Any]:
    return {
        "schema": SCHEMA_VERSION,
        "method": case.intake.get("method", case.manifest.get("method")),
        "intake": case.intake,
        "rows": {
            side: {name: len(frame) for name, frame in tables.items()}
            for side, tables in (("truth", case.truth), ("diagnosis", case.diagnosis))
        },
    }


__all__ = ["PARTS", "SCHEMA_VERSION", "score_run"]
