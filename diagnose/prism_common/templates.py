"""Filling templates of pages: everything that is put into them is escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def filled(
    template: str,
    values: Mapping[str, Any],
    loaders: list[PackageLoader],
    filters: Mapping[str, Callable[..., str]] | None = None,
) -> str:
    """The page from the template of this name; the first of ``loaders`` that has it is taken."""
    environment = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters or {}
    return environment.get_template(template).render(values)
