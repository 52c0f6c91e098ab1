"""A corpus of failed jobs, written by the command of the simulator."""

from __future__ import annotations

import pytest

from log_corpus import Corpus, corpus


@pytest.fixture(scope="session")
def failed_jobs(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Jobs with all kinds of failures that are not held out."""
    settings = "successes: 0.5, missing: 0, truncated: 0"
    return corpus(tmp_path_factory.mktemp("failed"), failures=24, settings=settings)
