"""Retrieval: how does a request become results?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from matchset import _native
from matchset.matchers.fused_match import fuse_matches
from matchset.matchers.fusion_rules import FusionRule
from matchset.matchers.match import Match
from matchset.matchers.match_set import MatchSet
from matchset.online.interleaving import BOTH, Origin
from matchset.serve.http.exposure import Exposure, make_query_id, name_matcher
from matchset.serve.http.request_errors import RequestError, too_large
from matchset.serve.http.requests import BatchRequest, ExplainRequest, MatchOptions, check_weights
from matchset.serve.http.responses import write_batch, write_head, write_match, write_result
from matchset.serve.loaded_model import LoadedModel, Prepared, matcher_of

_MAX_INLINE_BEAM = 64  # a wider one takes a thread
_MAX_INLINE_K = 200
_MAX_PREPARED = 256  # sets of options of a model
_DEPTH = 100  # products of ours that are fused with the caller's, or k if that is more
CANDIDATES = "candidates"


class Answer(NamedTuple):
    """The response to one query or to many."""

    body: bytes
    n_empty: int  # queries without a product
    records: bytes = b""  # lines to write before it is sent


def match_inline(
    model: LoadedModel,
    query: str,
    options: MatchOptions,
    exposure: Exposure | None = None,
    query_id: str | None = None,
) -> Answer | None:
    """What `match_one` returns, if it takes only microseconds; None if it deserves a thread."""
    if name_matcher(exposure, options) != model.default:
        return None
    if (prepared := _prepare(model, options)) is not None:
        return _answer(prepared, model, query, exposure, query_id)
    if not _is_short(options):
        return None
    if options.where is not None and not model.has_filter(options.where):
        return None
    return match_one(model, query, options, exposure, query_id)


def _is_short(options: MatchOptions) -> bool:
    is_narrow = options.k <= _MAX_INLINE_K and (options.beam or 0) <= _MAX_INLINE_BEAM
    return is_narrow and not options.attributes


def _prepare(model: LoadedModel, options: MatchOptions) -> Prepared | None:
    """What answers for the model with options that most callers use, in one native call."""
    try:
        return model.prepared[options]
    except KeyError:
        if len(model.prepared) >= _MAX_PREPARED:
            model.prepared.clear()
    matcher, prepared = model.matchers[model.default], None
    cuts = options.where, options.min_score, options.min_relative
    is_usual = _is_short(options) and all(each is None for each in cuts)
    if isinstance(matcher, MatchSet) and is_usual:
        chosen = model.choose(model.default, options.beam, options.new_share)
        answer = matcher.prepare_answer(options.k, **chosen, titles=options.titles)
        prepared = Prepared(write_head(model.version, model.default), answer)
    return model.prepared.setdefault(options, prepared)


def _answer(
    prepared: Prepared,
    model: LoadedModel,
    query: str,
    exposure: Exposure | None,
    query_id: str | None,
) -> Answer:
    head, record = prepared.head, b""
    if exposure is not None:
        head, query_id = head + exposure.fields, make_query_id()
    if query_id is not None:
        head = b'%b"query_id":"%b",' % (head, query_id.encode())
    body, n_products, microseconds, ids = prepared.answer(head, query, exposure is not None)
    if exposure is not None and query_id is not None:
        record = exposure.record(
            query_id, query, ids, None, microseconds=microseconds, version=model.version
        )
    return Answer(body, int(not n_products), record)


def match_one(
    model: LoadedModel,
    query: str,
    options: MatchOptions,
    exposure: Exposure | None = None,
    query_id: str | None = None,
) -> Answer:
    """The answer to one query; one that is recorded has an id."""
    search = _Search(model, options, exposure)
    found = search.run(query, query_id=query_id)
    body = write_match(model.version, search.name, found.fields, search.exposed)
    return Answer(body, int(not found.n_products), found.record)


def match_batch(
    model: LoadedModel,
    request: BatchRequest,
    deadline: float,
    max_bytes: int,
    exposure: Exposure | None = None,
    query_ids: Sequence[str | None] | None = None,
) -> Answer:
    """The answer to many queries; those that are recorded have ids.

    Raises TimeoutError if the (monotonic) deadline passes between two queries.
    """
    search = _Search(model, request.options, exposure)
    check_weights(request.rule, 2)
    results: list[_Result] = []
    n_bytes = 0
    for index, query in enumerate(request.queries):
        if time.monotonic() > deadline:  # the caller has stopped waiting
            raise TimeoutError
        candidates = None if request.candidates is None else request.candidates[index]
        query_id = None if query_ids is None else query_ids[index]
        result = search.run(query, candidates, request.rule, query_id=query_id)
        results.append(result)
        n_bytes += len(result.fields)
        if n_bytes > max_bytes:
            raise too_large(max_bytes)
    listed = [result.fields for result in results]
    return Answer(
        write_batch(model.version, search.name, listed, search.exposed),
        sum(not result.n_products for result in results),
        b"".join(result.record for result in results),
    )


class _Result(NamedTuple):
    """The answer to one query: JSON fields, and a line to record."""

    fields: bytes
    n_products: int
    record: bytes


class _Search:
    """The options of a request, ready for any number of queries."""

    def __init__(
        self, model: LoadedModel, options: MatchOptions, exposure: Exposure | None
    ) -> None:
        self._model, self._options, self._exposure = model, options, exposure
        self.name = name_matcher(exposure, options)
        self.exposed = b"" if exposure is None else exposure.fields
        names = [self.name]
        if exposure is not None and exposure.arm is None:
            names = [matcher_of(arm) for arm in exposure.experiment.arms]
        self._sources = [_Source(model, name, options) for name in names]
        model.require_attributes(options.attributes)

    def run(
        self,
        query: str,
        candidates: Sequence[str] | None = None,
        rule: FusionRule | None = None,
        *,
        query_id: str | None = None,
    ) -> _Result:
        """The result of one query; candidates of the caller are fused with it."""
        options, exposure = self._options, self._exposure
        started = time.perf_counter_ns()
        found, origins = self.find(query, candidates, rule)
        microseconds = (time.perf_counter_ns() - started) // 1000
        values = None
        if options.attributes:
            values = self._model.attributes_of(found.ids, options.attributes)
        if exposure is not None:
            query_id = make_query_id()
        fields = write_result(
            found,
            microseconds,
            titles=options.titles,
            attributes=values,
            query_id=query_id,
            origins=origins,
        )
        record = b""
        if exposure is not None and query_id is not None:
            record = exposure.record(
                query_id,
                query,
                _native.write_ids(found.products.texts, found.labels),
                origins,
                microseconds=microseconds,
                version=self._model.version,
            )
        return _Result(fields, len(found), record)

    def find(
        self, query: str, candidates: Sequence[str] | None, rule: FusionRule | None
    ) -> tuple[Match, tuple[Origin, ...] | None]:
        """The products of one query, and where they come from if two arms are shown."""
        if candidates is None:
            return self._find(query, self._options.k)
        return self._fuse(query, candidates, rule)

    def _find(self, query: str, k: int) -> tuple[Match, tuple[Origin, ...] | None]:
        """Our products, and where they come from if two arms are shown."""
        if self._exposure is None or self._exposure.arm is not None:
            return self._sources[0].match(query, k), None
        depth = max(k, self._exposure.experiment.depth)
        a, b = (source.match(query, depth) for source in self._sources)
        return self._exposure.interleave(a, b, k)

    def _fuse(
        self, query: str, candidates: Sequence[str], rule: FusionRule | None
    ) -> tuple[Match, tuple[Origin, ...] | None]:
        """The caller's products and ours; what the caller has is due to no arm alone."""
        k = self._options.k
        ours, origins = self._find(query, max(k, _DEPTH))
        rankings = {CANDIDATES: self._to_match(query, candidates), self.name: ours}
        found = fuse_matches(rankings, k, rule)
        if origins is None:
            return found, None
        origin_of = {**dict(zip(ours.ids, origins, strict=True)), **dict.fromkeys(candidates, BOTH)}
        return found, tuple(origin_of[product] for product in found.ids)

    def _to_match(self, query: str, candidates: Sequence[str]) -> Match:
        """A caller's own ranking, filtered: scores fall with the rank, titles are the model's."""
        candidates = self._model.find_allowed(candidates, self._options.where)
        scores = [1.0 / rank for rank in range(1, len(candidates) + 1)]
        return Match.of(query, candidates, scores, self._model.titles_of(candidates))


def find_products(
    model: LoadedModel,
    options: MatchOptions,
    query: str,
    candidates: Sequence[str] | None,
    rule: FusionRule | None,
) -> Match:
    """The products alone, outside any experiment."""
    return _Search(model, options, None).find(query, candidates, rule)[0]


class _Source:
    """A matcher with the options of a request."""

    def __init__(self, model: LoadedModel, name: str, options: MatchOptions) -> None:
        self._matcher = model.find(name)
        self._where = model.filter_for(name, options.where)
        self._chosen = model.choose(name, options.beam, options.new_share)
        self._options = options

    def match(self, query: str, k: int) -> Match:
        """Our products; the least scores are theirs alone, also where they are fused."""
        found: Match = self._matcher.match(
            query,
            k,
            where=self._where,
            **self._chosen,
            min_score=self._options.min_score,
            min_relative=self._options.min_relative,
        )
        return found


def explain(model: LoadedModel, request: ExplainRequest) -> dict[str, Any]:
    """Why a query finds a product, or why not."""
    name = model.find_explainer(request.matcher)
    matcher = model.find(name)
    is_known = matcher.products.index_of([request.product])[0] >= 0
    if not is_known or request.product in model.removed:
        rule = "product must be one of the model's"
        raise RequestError(
            "unknown_product", f"{rule}; got {request.product!r}", parameter="product"
        )
    options: dict[str, Any] = {
        "k": request.k,
        **model.choose(name, request.beam, request.new_share),
        "where": model.filter_for(name, request.where),
    }
    reasons = matcher.explain(request.query, request.product, **options)
    cut: dict[str, Any] = {
        "min_score": request.min_score,
        "min_relative": request.min_relative,
    }
    if reasons.is_returned and any(each is not None for each in cut.values()):
        kept = matcher.match(request.query, **options, **cut).ids
        if request.product not in kept:
            verdict = f"rank {reasons.rank:,}, but its score is too low"
            reasons = replace(reasons, is_returned=False, verdict=verdict)
    return reasons.to_dict()
