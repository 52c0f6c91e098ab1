"""What the diagnosers of flows and of logs and the simulator share.

Errors to users, the frame of programs and commands, files that are whole or not there, the words
and quantities of tables and pages, and compiled functions. It imports none of the other packages,
and nothing in it knows what a flow, a log or a simulation is.
"""
