"""Own time: what each rank loses itself, neither waiting for others nor on the wire."""
