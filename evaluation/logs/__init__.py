"""Scores of the diagnosis from logs alone, beside simple rules: results/reference/logs.md."""
