"""What the documentation says that a cluster needs follows from the measured rates."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "results" / "reference" / "monitor.md").read_text(encoding="utf-8")
DOCS = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
NUMBER = r"([\d,]+)"


def numbers(pattern: str, text: str) -> list[float]:
    """The numbers that a pattern has, in the only place that it fits."""
    (found,) = re.findall(pattern, text)
    return [float(one.replace(",", "")) for one in found]


def rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def rates() -> list[float]:
    """Records in a second of CPU time: if all jobs are followed, and if some are diagnosed."""
    rows = rf"\| followed \| {NUMBER} \|\n\| followed, and [^|]* \| {NUMBER} \|"
    return numbers(rows, PAGE)


def test_the_text_has_the_measured_rates() -> None:
    text = rf"{NUMBER} records a second\s+of CPU time if all jobs are followed and {NUMBER} if"
    assert numbers(text, DOCS) == [rounded(rate, 3) for rate in rates()]


def test_cores_follow_from_records_and_rates() -> None:
    job = rf"\({NUMBER} million records of {NUMBER} GPUs\s+in {NUMBER} minutes\)"
    millions, gpus, minutes = numbers(job, DOCS)
    rate = millions * 1e6 / gpus / (minutes * 60)
    rows = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|$", DOCS, re.MULTILINE)
    assert len(rows) == 3
    for row in rows:
        count, *shown = (float(cell.replace(",", "")) for cell in row)
        cores = [rounded(count * rate / each, 2) for each in rates()]
        assert shown == [rounded(count * rate, 2), *cores]
