"""A corpus of logs that several tests read."""

from __future__ import annotations

import pytest

from log_corpus import Corpus, corpus


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Thirty failures and the successful jobs before them, in all layouts."""
    return corpus(tmp_path_factory.mktemp("logs"), 30, "successes: 0.5, users: 4")
