"""The storage of checkpoints refuses a request."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class StorageError(Raises):
    """The storage of checkpoints refuses a request."""

    name: ClassVar[str] = "storage_error"
    about: ClassVar[str] = "The storage of checkpoints refuses a request"
    symptom: ClassVar[str] = "storage_error"
    category: ClassVar[Category] = "platform"
    count: ClassVar[float] = 10
    source: ClassVar[str] = ACME
    phases: ClassVar[tuple[str, ...]] = ("checkpoint",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling "
            "the UploadPart operation (reached max retries: 4): Please reduce your "
            "request rate."
        )
        return text, library(
            "botocore/client.py",
            1023,
            "_make_api_call",
            "raise error_class(parsed_response, operation_name)",
        )
