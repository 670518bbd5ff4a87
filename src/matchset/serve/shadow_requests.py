"""Shadow: what would another matcher have answered?

For a sample of the requests, after their answers: a thread asks both matchers and the loop records
what they found. Nobody waits for it, and where too much waits, records are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import random

import msgspec

from matchset.matchers.fusion_rules import FusionRule
from matchset.online.record_files import SHADOW
from matchset.online.records import ShadowRecord, timestamp_now
from matchset.serve.exposure import make_query_id
from matchset.serve.loaded_model import LoadedModel
from matchset.serve.requests import MatchOptions, MatchRequest
from matchset.serve.retrieval import find_search
from matchset.serve.worker import Worker

logger = logging.getLogger(__name__)
_MOST_WAITING = 32  # requests of a worker


class Shadow:
    """The shadow of one worker, if it has one."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._name = worker, worker.config.shadow
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="shadow")
        self._n_waiting = 0

    def draw(self, options: MatchOptions) -> str | None:
        """Return the id of an answer that is to be recorded, None for most answers."""
        is_drawn = (
            self._name is not None
            and options.matcher is None
            and random() < self._worker.config.shadow_share  # noqa: S311  # no secret
        )
        return make_query_id() if is_drawn else None

    def follow(
        self,
        model: LoadedModel,
        options: MatchOptions,
        query: str,
        query_id: str,
        *,
        candidates: Sequence[str] | None = None,
        rule: FusionRule | None = None,
    ) -> None:
        """Record, some time later, what both matchers find."""
        if self._n_waiting >= _MOST_WAITING:
            self._worker.metrics.count_records(SHADOW, "busy", 1)
            return
        loop = asyncio.get_running_loop()
        self._n_waiting += 1

        def ask() -> None:
            line = None
            try:
                line = self._ask(model, options, query, query_id, candidates, rule)
            except Exception as error:
                logger.error("a shadow failed: %s", type(error).__name__)  # noqa: TRY400
            loop.call_soon_threadsafe(self._record, line)

        self._pool.submit(ask)

    def follow_batch(
        self, model: LoadedModel, batch: MatchRequest, query_ids: Sequence[str | None]
    ) -> None:
        """Follow those queries of a batch that have an id."""
        for index, query_id in enumerate(query_ids):
            if query_id is not None:
                self.follow(
                    model,
                    batch.options,
                    batch.queries[index],
                    query_id,
                    candidates=None if batch.candidates is None else batch.candidates[index],
                    rule=batch.rule,
                )

    def _ask(
        self,
        model: LoadedModel,
        options: MatchOptions,
        query: str,
        query_id: str,
        candidates: Sequence[str] | None,
        rule: FusionRule | None,
    ) -> bytes:
        name = str(self._name)
        # Scores of another matcher have another scale, so a least score says nothing about them.
        others = options._replace(matcher=name, min_score=None)
        record = ShadowRecord(
            query_id=query_id,
            timestamp=timestamp_now(),
            matcher=options.matcher or model.names[0],
            ids=find_search(model, options).find(query, candidates, rule).ids,
            shadow=name,
            shadow_ids=find_search(model, others).find(query, candidates, rule).ids,
            model_version=model.version,
            query=query if self._worker.config.log_queries else None,
        )
        return msgspec.json.encode(record.to_dict()) + b"\n"

    def _record(self, line: bytes | None) -> None:
        self._n_waiting -= 1
        if line is None:
            self._worker.metrics.count_records(SHADOW, "failed", 1)
        else:
            self._worker.record(SHADOW, line)
