"""Values of options that are not given; light to import, because `--help` shows them."""

from typing import Final

METHOD: Final = "prism"
"""Method of diagnosis if none is given."""

TIME_LIMIT_S: Final = 600.0
"""Time of a method that runs in a process of its own [s]."""

MEMORY_LIMIT_GIB: Final = 8.0
"""Memory of that process [GiB]."""

RECORDS_AT_ONCE: Final = 20_000_000
"""Records that are diagnosed together if a file has more: they take about 3.5 GiB."""
