"""Values of options that are not given; light to import, because `--help` shows them."""

from typing import Final

METHOD: Final = "prism"
"""Method of diagnosis if none is given."""
