"""Exposed: how do experiments and shadows wrap the way that requests are answered?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from matchset.matchers.match import Match
from matchset.online.definition import INTERLEAVED
from matchset.online.interleaving import BOTH, Origin
from matchset.online.record_files import QUERIES
from matchset.serve.exposure import Exposure, expose, make_query_id
from matchset.serve.loaded_model import LoadedModel, matcher_of
from matchset.serve.requests import MatchRequest
from matchset.serve.responses import write_head
from matchset.serve.retrieval import Answer, Answering, Result, Search
from matchset.serve.shadow_requests import Shadow
from matchset.serve.worker import Worker


def exposing(worker: Worker, answer: Answering) -> Answering:
    """Wrap what answers requests, if this worker has an experiment or a shadow."""
    if worker.config.shadow is not None:
        return _shadowing(Shadow(worker), answer)
    if worker.config.experiment is not None:
        return _experimenting(worker, answer)
    return answer


def _shadowing(shadow: Shadow, answer: Answering) -> Answering:
    async def answer_and_follow(model: LoadedModel, request: MatchRequest) -> Answer:
        query_ids = [shadow.draw(request.options) for _ in request.queries]
        found = await answer(model, request)
        shadow.follow_batch(model, request, query_ids)
        return _name_results(found, query_ids)

    return answer_and_follow


def _experimenting(worker: Worker, answer: Answering) -> Answering:
    async def answer_by_arm(model: LoadedModel, request: MatchRequest) -> Answer:
        exposure = expose(model, request.unit, request.options)
        if exposure is None:
            return await answer(model, request)
        origins: list[tuple[Origin, ...]] | None = None
        if exposure.arm is None:
            found, origins = await worker.in_thread(lambda: _interleave(model, request, exposure))
        else:
            options = request.options._replace(matcher=matcher_of(exposure.arm))
            found = await answer(model, request._replace(options=options, wants_ids=True))
        query_ids = [make_query_id() for _ in found.results]
        lines = [
            exposure.record(
                query_ids[index],
                request.queries[index],
                result.ids,
                None if origins is None else origins[index],
                microseconds=result.microseconds,
                version=model.version,
            )
            for index, result in enumerate(found.results)
        ]
        if lines:
            worker.record(QUERIES, b"".join(lines), len(lines))
        return _name_results(replace(found, head=found.head + exposure.fields), query_ids)

    return answer_by_arm


def _name_results(answer: Answer, query_ids: Sequence[str | None]) -> Answer:
    """Return the answer with the id of each result that has one."""
    results = [
        result
        if query_id is None
        else result._replace(body=b'{"query_id":"%b",%b' % (query_id.encode(), result.body[1:]))
        for result, query_id in zip(answer.results, query_ids, strict=True)
    ]
    return replace(answer, results=results)


def _interleave(
    model: LoadedModel, request: MatchRequest, exposure: Exposure
) -> tuple[Answer, list[tuple[Origin, ...]]]:
    """Return the products of both arms as one list, and whom each is credited to."""
    options, depth = request.options, exposure.experiment.depth
    a, b = (
        Search(model, options._replace(matcher=matcher_of(arm))) for arm in exposure.experiment.arms
    )
    whole = Search(model, options)
    whole.name = INTERLEAVED
    results: list[Result] = []
    credited: list[tuple[Origin, ...]] = []
    for index, query in enumerate(request.queries):
        started = time.perf_counter_ns()
        match, origins = _find_both(a, b, query, options.k, depth, exposure)
        if request.candidates is not None:
            theirs = request.candidates[index]
            deeper, deep = _find_both(a, b, query, max(options.k, 100), depth, exposure)
            match = whole.fuse(query, theirs, deeper, request.rule)
            # What the caller has is due to no arm alone.
            origin_of = {**dict(zip(deeper.ids, deep, strict=True)), **dict.fromkeys(theirs, BOTH)}
            origins = tuple(origin_of[product] for product in match.ids)
        microseconds = (time.perf_counter_ns() - started) // 1000
        results.append(whole.write(match, microseconds, origins=origins, wants_ids=True))
        credited.append(origins)
    return Answer(INTERLEAVED, write_head(model.version, INTERLEAVED), results), credited


def _find_both(
    a: Search, b: Search, query: str, k: int, depth: int, exposure: Exposure
) -> tuple[Match, tuple[Origin, ...]]:
    deep = max(k, depth)
    return exposure.interleave(a.find_ours(query, deep), b.find_ours(query, deep), k)
