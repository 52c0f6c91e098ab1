"""Was each communicating pair classified correctly?

A pair is directed (src, dst). Every pair of the truth counts; one that is missing in the
diagnosis is wrong, with the inferred kind ``missing``. A pair that only the diagnosis has
is *spurious* and counted separately, since it has no true kind. If NICs are
shared, two addresses may exchange two kinds of traffic: each
kind is a pair of its own, and it is right if the diagnosis has these addresses with that kind;
otherwise it is compared with the most confident kind in the diagnosis.

``accuracy_bytes`` weights each pair by its true bytes: the acknowledgement direction of a
ring then has a small weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pandas as pd

from prism_common.kinds import UNKNOWN
from prism_sim.score.declare import COUNT, Better, Figure, Table, descriptive, lower, right
from prism_sim.score.load import Case
from prism_sim.score.stats import mean, ratio

MISSING = "missing"
_COUPLE = ["src", "dst"]

Confusion = dict[str, dict[str, int]]
"""True kind -> inferred kind -> number of pairs; zero counts have no entry."""


_CONFUSION = (
    Figure(
        "KIND.KIND", "pairs of a kind, classified correctly", COUNT, Better.HIGHER,
        absent_is_zero=True,
    ),
    Figure(
        "KIND.INFERRED", "pairs of a true kind, classified as another", COUNT, Better.LOWER,
        absent_is_zero=True,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class PairsScore:
    """Pairs with the right kind, before and after refinement."""

    total: Annotated[int, descriptive("pairs in the truth")]
    accuracy: Annotated[float | None, right("pairs classified correctly")]
    accuracy_unrefined: Annotated[
        float | None, right("pairs classified correctly before refinement")
    ]
    accuracy_bytes: Annotated[
        float | None, right("pairs classified correctly, weighted by their bytes")
    ]
    accuracy_unrefined_bytes: Annotated[
        float | None, right("pairs classified correctly before refinement, weighted by their bytes")
    ]
    missing: Annotated[int, lower("true pairs that are missing in the diagnosis")]
    spurious: Annotated[int, lower("pairs of the diagnosis that are not in the truth")]
    confusion: Annotated[Confusion, Table(_CONFUSION)]
    confusion_unrefined: Annotated[Confusion, Table(_CONFUSION)]


def score_pairs(case: Case) -> PairsScore:
    """Compare the kind of each pair, after and before refinement."""
    true, inferred = case.truth["pairs"], case.diagnosis["pairs"]
    refined = _inferred(true, inferred, "kind")
    unrefined = _inferred(true, inferred, "kind_unrefined")
    correct, correct_unrefined = refined == true["kind"], unrefined == true["kind"]
    return PairsScore(
        total=len(true),
        accuracy=mean(correct.to_numpy()),
        accuracy_unrefined=mean(correct_unrefined.to_numpy()),
        accuracy_bytes=_weighted(correct, true["bytes"]),
        accuracy_unrefined_bytes=_weighted(correct_unrefined, true["bytes"]),
        missing=int((refined == MISSING).sum()),
        spurious=_spurious(true, inferred),
        confusion=_confusion(true["kind"], refined),
        confusion_unrefined=_confusion(true["kind"], unrefined),
    )


def _inferred(true: pd.DataFrame, found: pd.DataFrame, column: str) -> pd.Series:
    """The inferred kind of each row of ``true``, in its order."""
    wanted = pd.DataFrame({name: true[name].astype(str) for name in [*_COUPLE, "kind"]})
    wanted["row"] = range(len(true))
    given = found[[*_COUPLE, "confidence"]].astype({"src": str, "dst": str})
    given["inferred"] = found[column].astype(object).where(found[column].notna(), UNKNOWN)
    both = wanted.merge(given, on=_COUPLE, how="left")
    both["right"] = both["inferred"] == both["kind"]
    both = both.sort_values(["row", "right", "confidence"], ascending=[True, False, False])
    best = both.drop_duplicates("row")["inferred"].astype(object)
    return best.where(best.notna(), MISSING).set_axis(true.index)


def _spurious(true: pd.DataFrame, inferred: pd.DataFrame) -> int:
    couples = inferred[_COUPLE].astype(str).drop_duplicates()
    known = true[_COUPLE].astype(str).drop_duplicates()
    return int((couples.merge(known, how="left", indicator=True)["_merge"] == "left_only").sum())


def _weighted(correct: pd.Series, size: pd.Series) -> float | None:
    weights = pd.to_numeric(size).fillna(0)
    return ratio(float(weights[correct].sum()), float(weights.sum()))


def _confusion(true: pd.Series, inferred: pd.Series) -> Confusion:
    counts = pd.crosstab(true.astype(str), inferred.astype(str))
    return {
        str(kind): {str(name): int(n) for name, n in row.items() if n}
        for kind, row in counts.iterrows()
    }
