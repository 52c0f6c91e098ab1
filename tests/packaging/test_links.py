"""Pages lead somewhere: their links, anchors and pictures exist, and pictures are small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evaluation.ideas.drawing import PICTURES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "results/reference").glob("*.md")
]  # fmt: skip
PRISM = (ROOT / "docs/prism.md").read_text(encoding="utf-8")
MOST_BYTES, MOST_LETTERS = 100 * 1024, 110


def anchors(page: Path) -> set[str]:
    """The anchors of a page: of its headings, as GitHub makes them, and its own."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_its_links_lead_to_files_and_anchors(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), target


def test_every_idea_has_its_picture_and_it_is_small() -> None:
    for name in PICTURES:
        assert f"](images/{name}.png)" in PRISM
        assert (ROOT / f"docs/images/{name}.png").stat().st_size < MOST_BYTES


def test_what_flows_cannot_show_can_be_scanned() -> None:
    section = (ROOT / "docs/prism-limits.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(.*?)\]\(#(.*?)\) (\| .* \|)$", section, re.MULTILINE)
    assert len(rows) == section.count("<a id=") == len({anchor for _, anchor, _ in rows})
    assert all(len(f"| {hidden} {answer}") <= MOST_LETTERS for hidden, _, answer in rows)
