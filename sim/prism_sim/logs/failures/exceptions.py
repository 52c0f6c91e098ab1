"""Exceptions of Python in a rank: of the user's script, the framework or a library."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import (
    ACME,
    BLOOM,
    BYTEROBUST,
    LLAMA,
    Category,
    Raises,
    called,
    script,
)
from prism_sim.logs.scene import Scene


class DriverMismatch(Raises):
    name = "driver_mismatch"
    about = "The driver of one node is too old"
    symptom = "no_gpu"
    category = "platform"
    stage = "launch"
    count = 2
    source = LLAMA
    launched = 0.2
    phases = ("launch",)
    call = called("torch/cuda/__init__.py", 319, "_lazy_init", "torch._C._cuda_init()")
    text = (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). "
        "Please update your GPU driver."
    )


class FalseOutOfMemory(Raises):
    name = "false_out_of_memory"
    about = "A GPU with errors has no memory for the next job"
    symptom = "out_of_memory_at_launch"
    category = "hardware"
    stage = "launch"
    count = 1
    source = BLOOM
    launched = 0.25
    phases = ("launch",)
    call = called("torch/cuda/__init__.py", 399, "set_device", "torch._C._cuda_setDevice(device)")
    text = (
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously "
        "reported at some other API call, so the stacktrace below might be incorrect.\nFor "
        "debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    )


class AddressInUse(Raises):
    name = "address_in_use"
    about = "A port of the first node is in use"
    symptom = "address_in_use"
    category = "platform"
    stage = "launch"
    count = 12
    source = ACME
    launched = 0.15
    phases = ("launch",)
    call = called(
        "torch/distributed/rendezvous.py",
        189,
        "_create_c10d_store",
        "return TCPStore(hostname, port, world_size)",
    )
    text = (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
        "local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, "
        "message: address already in use"
    )


class CudaOutOfMemory(Raises):
    name = "cuda_out_of_memory"
    about = "The model needs more memory than a GPU has"
    symptom = "cuda_out_of_memory"
    category = "user"
    count = 14
    source = ACME
    call = script("model/layers.py", 88, "forward", "scores = torch.matmul(query, key)")
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a "
        "total capacity of 79.15 GiB of which 1.31 GiB is free. Including non-PyTorch memory, "
        "this process has 77.83 GiB memory in use. Of the allocated memory 71.02 GiB is "
        "allocated by PyTorch, and 4.11 GiB is reserved by PyTorch but unallocated.\nSee "
        "documentation for Memory Management "
        "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )


class AssertionRaised(Raises):
    name = "assertion_error"
    about = "A condition in the framework does not hold"
    symptom = "assertion_error"
    category = "framework"
    count = 105
    source = ACME
    call = called(
        "megatron/core/distributed/param_and_grad_buffer.py",
        361,
        "finish_grad_sync",
        "assert self.ready",
    )
    text = "AssertionError: gradient buffer is not ready: 3 of 7 buckets"


class RuntimeRaised(Raises):
    name = "runtime_error"
    about = "Tensors have wrong shapes"
    symptom = "runtime_error"
    category = "framework"
    count = 65
    source = ACME
    call = script("model/loss.py", 47, "forward", "loss = losses * mask")
    text = (
        "RuntimeError: The size of tensor a (4096) must match the size of tensor b (4095) at "
        "non-singleton dimension 1"
    )


class ValueRaised(Raises):
    name = "value_error"
    about = "A value in the data is not allowed"
    symptom = "value_error"
    category = "framework"
    count = 33
    source = ACME
    call = script("data/pack.py", 72, "pack", "raise ValueError(text)")
    text = "ValueError: sequence length 4097 is longer than the maximum 4096"


class AttributeRaised(Raises):
    name = "attribute_error"
    about = "An object of the framework lacks an attribute"
    symptom = "attribute_error"
    category = "framework"
    count = 67
    source = ACME
    call = called(
        "megatron/core/optimizer/distrib_optimizer.py",
        1902,
        "step",
        "shard.grad = model_param.main_grad",
    )
    text = "AttributeError: 'NoneType' object has no attribute 'main_grad'"


class ZeroDivision(Raises):
    name = "zero_division"
    about = "A count in the framework is zero"
    symptom = "zero_division"
    category = "framework"
    count = 5
    source = ACME
    phases = ("evaluation", "iteration")
    held_out = True
    call = script("metrics.py", 33, "perplexity", "return total / tokens")
    text = "ZeroDivisionError: float division by zero"


class IndexRaised(Raises):
    name = "index_error"
    about = "A token lies outside the vocabulary"
    symptom = "index_error"
    category = "user"
    count = 23
    source = ACME
    call = script("data/indexed.py", 402, "__getitem__", "return self.table[token]")
    text = "IndexError: index 51203 is out of bounds for dimension 0 with size 51200"


class NanHardware(Raises):
    name = "nan_hardware"
    about = "A GPU computes wrong numbers"
    symptom = "nan"
    category: ClassVar[Category] = "hardware"
    count = 6
    source = LLAMA
    ratio = 3  # ByteRobust, Table 2
    call = called(
        "megatron/core/distributed/param_and_grad_buffer.py",
        214,
        "check_grads",
        "assert not norm.isnan(), (",
    )

    def message(self, scene: Scene) -> str:
        return (
            f"AssertionError: Rank {scene.rank}: found NaN in local grad norm in backward "
            "pass before data-parallel communication collective. Device: "
            f"{scene.job.homes[scene.rank][1]}, node: {scene.job.nodes[scene.node]}"
        )


class NanUser(NanHardware):
    """The loss diverges: the lines are those of a GPU that computes wrong numbers."""

    name = "nan_user"
    about = "The loss diverges"
    category = "user"
    count = 1
    source = BYTEROBUST
    ratio = 1  # ByteRobust, Table 2


class DiskFull(Raises):
    """The storage for checkpoints is full: a quarter of the 266 operating system errors of Acme."""

    name = "disk_full"
    about = "The storage for checkpoints is full"
    symptom = "disk_full"
    category = "user"
    count = 66
    source = ACME
    phases = ("checkpoint",)
    call = called(
        "torch/distributed/checkpoint/filesystem.py", 411, "write_data", "stream.write(buffer)"
    )

    def message(self, scene: Scene) -> str:
        return (
            "OSError: [Errno 28] No space left on device: "
            f"'/ckpt/{scene.job.user}/run/iter_{(scene.iteration or 1) - 1:07d}/shard_3.distcp'"
        )


class StorageError(Raises):
    name = "storage_error"
    about = "The storage of checkpoints refuses a request"
    symptom = "storage_error"
    category = "platform"
    count = 10
    source = ACME
    phases = ("checkpoint",)
    call = called(
        "botocore/client.py",
        1023,
        "_make_api_call",
        "raise error_class(parsed_response, operation_name)",
    )
    text = (
        "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the "
        "UploadPart operation (reached max retries: 4): Please reduce your request rate."
    )


class ConnectionRaised(Raises):
    name = "connection_error"
    about = "The store that ranks share is not reachable"
    symptom = "connection_error"
    category = "platform"
    count = 147
    source = ACME
    call = called(
        "torch/distributed/distributed_c10d.py", 4629, "barrier", "store.wait([key], timeout)"
    )

    def message(self, scene: Scene) -> str:
        return (
            "torch.distributed.DistNetworkError: failed to recv, got 0 bytes from "
            f"{scene.job.nodes[0]}:29500"
        )
