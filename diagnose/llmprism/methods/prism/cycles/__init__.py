"""Cycles: dividing the traffic of one class of connections into parts that are alike."""
