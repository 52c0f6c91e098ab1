"""From anybody's telemetry to the flow table: ``llmprism ingest`` and ``llmprism check``.

A *reader* turns one kind of file into batches of flow records (:mod:`llmprism.ingest.readers`).
Batches are screened, put in order of time with bounded memory, and written as the flow table
that the diagnoser reads. A record that was seen at several observation points is counted once.
:mod:`llmprism.network` turns descriptions of a network into ``topology.json``.
"""
