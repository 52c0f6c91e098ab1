"""``python -m llmlog`` is the command ``llmlog``."""

from llmlog.cli import main

if __name__ == "__main__":
    main()
