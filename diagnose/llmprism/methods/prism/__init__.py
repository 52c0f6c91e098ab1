"""``method="prism"``; see :mod:`llmprism.methods.prism.method`."""

from __future__ import annotations

from llmprism.methods.prism.method import prism

__all__ = ["prism"]
