"""Group a file of flow records by pair and minute with DuckDB: the least that any reader does.

    python benchmarks/grouping.py FLOWS

Prints the number of groups.
"""

from __future__ import annotations

import sys

import duckdb

QUERY = """
CREATE TABLE groups AS
SELECT src, dst, start_ns // 60000000000 AS minute, sum(bytes) AS bytes, count(*) AS records
FROM read_parquet(?)
GROUP BY src, dst, minute
"""


def main() -> None:
    duckdb.execute(QUERY, [sys.argv[1]])
    print(*duckdb.execute("SELECT count(*) FROM groups").fetchall()[0])


if __name__ == "__main__":
    main()
