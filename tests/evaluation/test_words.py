"""Committed pages have the fixed text of their templates, whatever figures they show."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import Environment, nodes

from evaluation.paths import REFERENCE, ROOT

FOLDERS = {
    "benchmarks/templates": "fabric",
    "evaluation/templates/monitor": "monitor",
    "reproduction/templates": "paper",
}
"""The page that the templates of each folder make."""
MADE = [
    pytest.param(template, page, id=f"{page}-{template.name}")
    for folder, page in FOLDERS.items()
    for template in sorted((ROOT / folder).iterdir())
]


def words_of(text: str) -> str:
    return " ".join(text.split())


def fixed_text(template: Path) -> list[str]:
    """Paragraphs, or parts of them, that are on every page and do not depend on figures."""
    parsed = Environment().parse(template.read_text(encoding="utf-8"))
    outputs = [node for node in parsed.body if isinstance(node, nodes.Output)]
    parts = [part for one in outputs for part in one.nodes if isinstance(part, nodes.TemplateData)]
    paragraphs = [paragraph for part in parts for paragraph in part.data.split("\n\n")]
    return [text for paragraph in paragraphs if (text := words_of(paragraph))]


@pytest.mark.parametrize(("template", "page"), MADE)
def test_a_committed_page_has_the_text_of_its_templates(template: Path, page: str) -> None:
    text = words_of((REFERENCE / f"{page}.md").read_text(encoding="utf-8"))
    assert [part for part in fixed_text(template) if part not in text] == []
