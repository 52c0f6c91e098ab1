"""``python -m llmprism``: the same as ``llmprism``."""

from llmprism.cli import main

main()
