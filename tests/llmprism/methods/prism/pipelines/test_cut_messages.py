"""Messages of a pipeline that an exporter cuts in two."""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.pipelines.first_messages import _begin_messages

MESSAGE = 131_072.0


def begins(*sizes):
    return _begin_messages(np.array(sizes), MESSAGE).tolist()


def test_each_whole_message_begins_with_its_record():
    assert begins(131_136, 131_136, 131_136) == [True, True, True]


def test_the_rest_of_a_message_begins_none():
    assert begins(4_096, 127_040, 131_136, 100_000, 31_136, 131_136) == [
        True, False, True, True, False, True,
    ]  # fmt: skip


def test_a_record_of_two_messages_is_followed_by_the_third():
    assert begins(262_272, 131_136) == [True, True]
