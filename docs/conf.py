"""Settings of the documentation site: ``make docs`` builds it into ``build/site``.

The source folder is the repository, so every page is where readers of the repository find it, and
no text is copied. Pages name what is made from code by a marker (:mod:`docs.building.markers`);
blocks ``session`` of tutorials are executed (:mod:`docs.building.session`), and so is the gallery.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs.building.gallery import write_examples  # noqa: E402
from prism_sim import __version__  # noqa: E402

project = "prism-sim"
author = "the authors of prism-sim"
project_copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docs.building",
]
root_doc = "docs/index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
include_patterns = [
    "docs/**",
    "results/reference/*.md",
    "lab/README.md",
    "benchmarks/README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "evaluation/exam-log.md",
]
exclude_patterns = ["docs/examples/**", "docs/made/sessions/**", "docs/**/*.ipynb"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's sections have them in words
numpydoc_show_class_members = False

EXAMPLES = Path("build/examples")  # an example leaves its runs in its own folder: here, in a copy
write_examples(ROOT / EXAMPLES)

sphinx_gallery_conf = {
    "examples_dirs": EXAMPLES.as_posix(),
    "gallery_dirs": "docs/made/gallery",
    "filename_pattern": r"/plot_",
    "subsection_order": [
        f"{EXAMPLES}/slow_ranks",
        f"{EXAMPLES}/slow_network",
        f"{EXAMPLES}/stops",
        f"{EXAMPLES}/more",
    ],
    "within_subsection_order": "docs.building.gallery.gallery_order",
    "reset_modules": ("docs.building.gallery.gallery_look",),
    "image_scrapers": ("matplotlib",),
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"prism-sim {__version__}"
html_static_path = ["style"]
html_css_files = ["site.css"]
html_extra_path = ["top"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
