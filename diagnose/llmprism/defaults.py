"""Values of options that are not given; light to import, because `--help` shows them."""

from typing import Final

METHOD: Final = "prism"
"""Method of diagnosis if none is given."""

RECORDS_AT_ONCE: Final = 20_000_000
"""Records that are diagnosed together if a file has more: they take about 3.5 GiB."""
