"""Measured figures of methods for studies of operations, from the pages that measure them."""

from __future__ import annotations

import json
from pathlib import Path

from evaluation.paths import REFERENCE
from prism_sim.loading.bundled import folder

METHODS = ("paper", "prism")
DIGITS, SHOWN = 4, 3


def write(reference: Path = REFERENCE, path: Path | None = None) -> None:
    """Write ``measured.json`` of the bundled studies from ``exam.json`` and ``logs.json``."""
    figures = {name: of_flows(reference / "exam.json", name) for name in METHODS}
    figures["llmlog"] = of_logs(reference / "logs.json")
    target = path or folder() / "operations" / "measured.json"
    target.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def of_flows(exam: Path, method: str) -> dict[str, float]:
    """Recall and precision of the held-out worlds; culprits are named only for what is found."""
    findings = json.loads(exam.read_text(encoding="utf-8"))["sets"]["exam"][method]["findings"]
    recall, precision, first = (
        float(findings[name]["value"]) for name in ("recall", "precision", "culprit first")
    )
    right = round(first / recall, DIGITS) if recall else 0.0
    return {"recall": recall, "precision": precision, "names": recall, "right": right}


def of_logs(logs: Path) -> dict[str, float]:
    """The part of the failures of held-out kinds whose first node is named, as on the page."""
    figures = json.loads(logs.read_text(encoding="utf-8"))["figures"]["exam"]["prism"]
    return {"right": round(float(figures["top_1"]["value"]), SHOWN)}
