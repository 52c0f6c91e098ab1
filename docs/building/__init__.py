"""Parts of the documentation site that are made from code, or are executed.

:mod:`.markers` puts text and figures from code into pages, and :mod:`.session` runs the
commands of tutorials. :mod:`.links` checks the links of the built pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the parts with Sphinx."""
    from docs.building.links import check_links
    from docs.building.markers import replace_markers
    from docs.building.session import Session

    app.connect("source-read", replace_markers)
    app.connect("build-finished", check_links)
    app.add_directive("session", Session)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
