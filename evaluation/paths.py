"""Where the evaluation reads and writes."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "results" / "reference"
"""Committed pages and figures."""
TEMPLATES = ROOT / "evaluation" / "templates"
"""The text of the pages."""
