"""Real training traffic with known answers, made on one Linux machine.

A case is a YAML file in the words of a scenario, with one more section, ``lab``. From it the lab
builds a leaf-spine network of network namespaces, trains on it (PyTorch with gloo, or OpenMPI),
captures packets at the ports of leaves and spines, and writes a run folder: flow records,
topology, and the truth as the trainers recorded it.

    python -m lab lab/cases/ddp4.yaml --out results/lab/ddp4

Everything runs inside namespaces of its own, for networks, mounts and processes, which the kernel
removes when the last process has ended.
"""
