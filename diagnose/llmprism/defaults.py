"""Values of options that are not given; light to import, because `--help` shows them."""

from typing import Final

METHOD: Final = "prism"
"""Method of diagnosis if none is given."""

RECORDS_AT_ONCE = 1 << 24
"""Records that are diagnosed together if a file has more: they take about 3 GiB."""
