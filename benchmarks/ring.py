"""Run the ring benchmark once, in a process of its own.

``ring.py SPREAD`` prints the number of flows and the CPU time of the simulation as JSON. The time
has no imports, no compilation and no construction of the flows. ``ring.py SPREAD FLOWSET ANSWER``
writes the flows and their ends to files instead, for other simulators.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from flowset import write_answer, write_flow_set
from workloads import random_flows, strided_rings

GPUS = 1024


def main(spread: float, files: list[Path]) -> None:
    program = strided_rings(GPUS, spread)
    if files:
        write_flow_set(program, files[0])
        write_answer(program.run(), files[1])
        return
    random_flows(flows=3, links=2).run()  # loads the compiled code
    started_s = time.process_time()
    end_ns = program.run()
    print(json.dumps({"flows": len(end_ns), "seconds": time.process_time() - started_s}))


if __name__ == "__main__":
    main(float(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
