"""``python -m reproduction``, which is ``make paper``."""

from __future__ import annotations

from reproduction.command import app

app(prog_name="python -m reproduction")
