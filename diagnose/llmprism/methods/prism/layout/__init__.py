"""The layout of a job: sizes along each axis, replicas, and what is sharded."""
