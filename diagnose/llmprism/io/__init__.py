"""Input and output: the flow table, the topology, and the tables of a diagnosis."""
