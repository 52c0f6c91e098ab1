"""The trainers: real processes that train, one a rank, and record what they do.

A trainer is a module that is named in :data:`TORCH` or :data:`MPI`. Only these modules import
PyTorch or MPI.
"""

TORCH = {
    "ddp": "lab.trainers.replicated",
    "fsdp": "lab.trainers.sharded",
    "one_f_one_b": "lab.trainers.pipelined",
    "pipelining": "lab.trainers.library_pipeline",
    "tensor": "lab.trainers.tensor_parallel",
}
"""Modules of the trainers that use PyTorch with gloo, by name."""

MPI = {"mpi": "lab.trainers.message_passing"}
"""Modules of the trainers that use OpenMPI, by name."""
