"""An option of the script does not exist."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class BadArgument(Raises):
    """An option of the script does not exist."""

    name: ClassVar[str] = "bad_argument"
    about: ClassVar[str] = "An option of the script does not exist"
    symptom: ClassVar[str] = "bad_argument"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 3
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.1
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "SystemExit: 2\npretrain_gpt.py: error: unrecognized arguments: --sequence-paralel"
        return text, script(
            scene,
            "arguments.py",
            88,
            "parse_args",
            "args = parser.parse_args()",
        )
