"""The exam on public logs of others: a list of logs with right answers; nothing is fetched."""
