"""Parts of small worlds in YAML: clusters, and jobs of one line."""

from __future__ import annotations

MODEL = "{layers: 12, hidden: 1024, heads: 8, vocab: 32000, sequence_length: 1024}"
SINGLE = """\
cluster: {servers: %d, gpus_per_server: 1, nics_per_server: 1, nic_gbps: %d,
          fabric: {kind: tor, leaf_ports: 4, spines: 2}}
"""
FOUR = """\
cluster: {servers: 6, gpus_per_server: 4, nics_per_server: 4,
          fabric: {kind: rail, leaf_ports: 6}}
"""


def job(name: str, keys: str, mfu: float = 0.4) -> str:
    """A job with the fields ``keys`` beside those that all of them have."""
    fixed = f"mfu: {mfu}, compute_jitter: 0.01, step_overhead_ms: 5"
    return f"  - {{name: {name}, model: {MODEL}, {fixed}, {keys}}}\n"
