"""The links of the built site: every one inside the site has to lead to a file and an anchor."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "main-content"}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value and tag != "link":
                self.links.append(value)


def broken_links(site: Path) -> Iterator[str]:
    """Every link of the site that leads nowhere, as ``PAGE: LINK``."""
    files = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else {parts.fragment}
            if not target.exists() or unquote(parts.fragment) not in anchors:
                yield f"{path.relative_to(site)}: {link}"


def check_links(app: Sphinx, error: Exception | None) -> None:
    """Warn of each broken link, when the site is complete."""
    from sphinx.util import logging

    if error is None and app.builder.name == "html":
        logger = logging.getLogger(__name__)
        for link in sorted(set(broken_links(Path(app.outdir).resolve()))):
            logger.warning("broken link: %s", link)
