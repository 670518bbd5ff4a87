// Bindings of the match set: its parts, its search, and the fit of its re-ranker.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "json_products.hpp"
#include "match_set.hpp"
#include "module.hpp"
#include "newton.hpp"
#include "python_arrays.hpp"
#include "python_csr.hpp"
#include "python_products.hpp"
#include "python_tree.hpp"
#include "python_vocabulary.hpp"
#include "reranker.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

using Bytes = std::tuple<In<std::int8_t>, In<float>>;                              // values, scales
using Impacts = std::tuple<In<std::int64_t>, In<std::int32_t>, In<std::uint8_t>>;  // offsets, documents, impacts
using TowerArrays = std::tuple<In<std::int32_t>, Bytes, std::tuple<In<std::int64_t>, In<std::int64_t>>,
                               std::tuple<Bytes, Bytes, Bytes>, In<std::int32_t>, In<std::int32_t>, std::size_t>;
using LexicalArrays = std::tuple<Impacts, Impacts, In<std::int32_t>, double, std::uint32_t>;
using PastArrays = std::tuple<Impacts, Csr, In<std::uint64_t>, In<std::int32_t>>;
// Kind and keys of words, lexical index; vectors in their lists; products that callers see.
using AddedArrays =
    std::tuple<std::tuple<std::uint32_t, In<std::uint64_t>, Impacts, Impacts, In<std::int32_t>>,
               std::tuple<In<std::int64_t>, Bytes, In<std::int32_t>, In<std::int32_t>>, In<std::int32_t>>;
using RerankerArrays = std::tuple<In<float>, In<float>, In<float>>;  // weights, knots, log-odds

void check(bool is_right, const std::string& rule, std::size_t found) {
  if (!is_right) throw std::invalid_argument(rule + "; got " + std::to_string(found));
}

ByteVectors to_vectors(const Bytes& vectors, std::size_t dimensions) {
  const auto& [values, scales] = vectors;
  check(values.size() == scales.size() * dimensions, "vectors must have " + std::to_string(dimensions) + " bytes each",
        values.size());
  return {to_span(values), to_span(scales), dimensions};
}

ImpactLists to_impacts(const Impacts& impacts, std::size_t n_documents) {
  const auto& [offsets, documents, values] = impacts;
  check(documents.size() == values.size(), "there must be one impact per document", values.size());
  return {to_lists(offsets, documents), to_span(values), n_documents};
}

TowersView to_towers(const TowerArrays& arrays, std::size_t n_products) {
  const auto& [row_of, table, offsets, vectors, labels, position_of, d] = arrays;
  check(d > 0 && d % 16 == 0, "dimensions must be a positive multiple of 16", d);
  check(position_of.size() == n_products, "there must be one position per product", position_of.size());
  const auto& [groups, clusters, products] = vectors;
  const InvertedLists lists{to_span(std::get<0>(offsets)), to_span(std::get<1>(offsets)), to_vectors(groups, d),
                            to_vectors(clusters, d),       to_vectors(products, d),       to_span(labels)};
  lists.check();
  return {to_span(row_of), to_vectors(table, d), lists, to_span(position_of)};
}

LexicalIndex to_lexical(const LexicalArrays& arrays, std::size_t n_products) {
  const auto& [titles_of, words_of, row_of, scale, _] = arrays;
  const ImpactLists words = to_impacts(words_of, 0);
  check(row_of.size() == n_products, "there must be one row of words per product", row_of.size());
  return {to_impacts(titles_of, n_products), words.lists, words.impacts, to_span(row_of), static_cast<float>(scale)};
}

PastQueries to_past(const PastArrays& arrays, std::size_t n_products) {
  const auto& [queries_of, answers, hashes, by_hash] = arrays;
  const CsrView products = to_csr(answers, static_cast<std::int64_t>(n_products));
  check(hashes.size() == by_hash.size(), "there must be one query per hash", by_hash.size());
  return {to_impacts(queries_of, products.n_rows()),
          products.lists,
          products.values,
          to_span(hashes),
          to_span(by_hash),
          n_products};
}

// The rows of words tell how many products there are.
AddedProducts to_added(const AddedArrays& arrays, const MatchSetView& view) {
  const auto& [words, vectors, _] = arrays;
  const auto& [kind, keys, titles_of, words_of, row_of] = words;
  const auto& [list_begin, products, labels, position_of] = vectors;
  const std::size_t n = row_of.size();
  check(position_of.size() == n, "there must be one position per added product", position_of.size());
  check(std::is_sorted(keys.data(), keys.data() + keys.size()), "keys of words must ascend", keys.size());
  AddedProducts added{n, kind, to_span(keys), {}, {}, to_span(position_of)};
  const ImpactLists rows = to_impacts(words_of, 0);
  check(rows.n_terms() == n, "there must be one row of words per added product", rows.n_terms());
  const float scale = view.lexical ? view.lexical->scale : 1;
  added.words = {to_impacts(titles_of, view.n_trained() + n), rows.lists, rows.impacts, to_span(row_of), scale};
  if (view.towers) {
    added.lists = view.towers->lists;
    added.lists->list_begin = to_span(list_begin);
    added.lists->products = to_vectors(products, view.towers->lists.products.dimensions);
    added.lists->labels = to_span(labels);
    added.lists->check();
  }
  return added;
}

Reranker to_reranker(const RerankerArrays& arrays) {
  const auto& [weights, knots, log_odds] = arrays;
  check(weights.size() == 2 * kNFeatures, "there must be " + std::to_string(2 * kNFeatures) + " weights",
        weights.size());
  check(knots.size() > 0 && knots.size() == log_odds.size(), "there must be as many knots as log-odds, at least one",
        knots.size());
  check(std::is_sorted(knots.data(), knots.data() + knots.size()), "knots must ascend", knots.size());
  Reranker reranker{{}, to_span(knots), to_span(log_odds)};
  for (std::size_t i = 0; i < 2; ++i)
    std::copy_n(weights.data() + i * kNFeatures, kNFeatures, reranker.weights[i].begin());
  return reranker;
}

// A filter, in the forms that the sources want.
struct MatchSetFilter {
  std::vector<std::uint8_t> is_allowed;
  std::optional<Allowed> tree;
  std::size_t total = 0;
  bool is_asked = true;  // by the caller
};

// A match set that keeps its arrays alive.
class MatchSet {
 public:
  MatchSet(nb::object tree, std::optional<TowerArrays> towers, std::optional<LexicalArrays> lexical,
           std::optional<PastArrays> past, In<float> popularity, In<float> recent, RerankerArrays reranker,
           std::optional<AddedArrays> added)
      : tree_(std::move(tree)), towers_(std::move(towers)), lexical_(std::move(lexical)), past_(std::move(past)),
        popularity_(std::move(popularity)), recent_(std::move(recent)), reranker_(std::move(reranker)),
        added_(std::move(added)) {
    view_.popularity = to_span(popularity_);
    view_.recent = to_span(recent_);
    check(recent_.size() == popularity_.size(), "there must be one number of recent events per product",
          recent_.size());
    const std::size_t n = n_shown_ = view_.n_products();
    if (!tree_.is_none()) {
      packed_ = &nb::cast<const PackedTree&>(tree_);
      view_.tree = &packed_->view();
      view_.tree_labels = packed_->labels();
    }
    if (towers_) view_.towers = to_towers(*towers_, n);
    if (lexical_) {
      view_.lexical = to_lexical(*lexical_, n);
      view_.first_word = std::get<4>(*lexical_);
    }
    // Words usually lie in the order of the vectors: where they do, one array tells both places, and takes less cache.
    if (view_.towers && view_.lexical && std::ranges::equal(view_.towers->position_of, view_.lexical->row_of))
      view_.lexical->row_of = view_.towers->position_of;
    if (past_) view_.past = to_past(*past_, n);
    view_.reranker = to_reranker(reranker_);
    if (added_) adopt_added();
  }

  const MatchSetView& view() const { return view_; }
  // Products that callers know: all but removed ones, in the order of their labels.
  std::size_t n_shown() const { return n_shown_; }
  std::int32_t shown(std::uint32_t label) const {
    return shown_.empty() ? static_cast<std::int32_t>(label) : shown_[label];
  }

  // A filter from one byte per product that callers know.
  MatchSetFilter allow(std::span<const bool> is_allowed) const {
    check(is_allowed.size() == n_shown_, "allowed must have one entry per product, " + std::to_string(n_shown_),
          is_allowed.size());
    MatchSetFilter filter;
    filter.is_allowed.resize(view_.n_products());
    for (std::size_t label = 0; label < filter.is_allowed.size(); ++label)
      if (const std::int32_t product = shown(static_cast<std::uint32_t>(label)); product >= 0)
        filter.is_allowed[label] = is_allowed[static_cast<std::size_t>(product)];
    filter.total = static_cast<std::size_t>(std::count(filter.is_allowed.begin(), filter.is_allowed.end(), 1));
    if (packed_) {
      const std::span trained = std::span<const std::uint8_t>(filter.is_allowed).first(view_.n_trained());
      filter.tree.emplace(packed_->view(), packed_->by_leaf(trained));
    }
    return filter;
  }

  // What a search may find: what a filter allows, or all but what was removed.
  AllowedProducts find_allowed(const MatchSetFilter* filter) const {
    if (filter == nullptr && !present_) return {};
    const MatchSetFilter& chosen = filter ? *filter : *present_;
    check(chosen.is_allowed.size() == view_.n_products(), "allowed must be a filter of this match set",
          chosen.is_allowed.size());
    return {chosen.is_allowed, chosen.tree ? &*chosen.tree : nullptr, chosen.total, chosen.is_asked};
  }

  void check_vocabulary(const Vocabulary& vocabulary) const {
    const std::size_t n = vocabulary.view().n_features();
    const auto must_be = [&](std::size_t wanted) {
      check(n == wanted, "the vocabulary must have " + std::to_string(wanted) + " features, as the match set has", n);
    };
    if (view_.tree) must_be(view_.tree->n_features);
    if (view_.towers) must_be(view_.towers->row_of.size());
  }

 private:
  void adopt_added() {
    view_.added = to_added(*added_, view_);
    shown_ = to_span(std::get<2>(*added_));
    check(shown_.size() == view_.n_products(), "there must be one product per label", shown_.size());
    std::int32_t next = 0;
    for (const std::int32_t product : shown_)
      check(product == -1 || product == next++, "products of labels must ascend from 0", shown_.size());
    n_shown_ = static_cast<std::size_t>(next);
    if (n_shown_ == shown_.size()) return;
    const auto all = std::make_unique<bool[]>(n_shown_);
    std::fill_n(all.get(), n_shown_, true);
    present_ = allow({all.get(), n_shown_});
    present_->is_asked = false;
  }

  nb::object tree_;
  std::optional<TowerArrays> towers_;
  std::optional<LexicalArrays> lexical_;
  std::optional<PastArrays> past_;
  In<float> popularity_, recent_;
  RerankerArrays reranker_;
  std::optional<AddedArrays> added_;
  const PackedTree* packed_ = nullptr;
  MatchSetView view_;
  std::span<const std::int32_t> shown_;  // product of each label, ascending, -1 where removed; empty: the label itself
  std::size_t n_shown_ = 0;
  std::optional<MatchSetFilter> present_;  // all but removed ones; empty: all
};

MatchSetScratch& own_scratch() {
  static thread_local MatchSetScratch scratch;
  return scratch;
}

MatchSetFilter py_allow(const MatchSet& self, const In<bool>& is_allowed) { return self.allow(to_span(is_allowed)); }

using RowOut = std::pair<Out<std::int32_t>, Out<float>>;

RowOut py_search_text(const MatchSet& self, const Vocabulary& vocabulary, nb::handle text, std::size_t k,
                      const SearchBounds& bounds, const MatchSetFilter* allowed) {
  self.check_vocabulary(vocabulary);
  nb::object owner;
  const std::string_view bytes = query_to_utf8(text, owner);
  MatchSetScratch& scratch = own_scratch();
  without_gil([&] {
    vectorize(bytes, vocabulary.view(), scratch.query);
    search_match_set(self.view(), k, bounds, self.find_allowed(allowed), scratch);
  });
  // One allocation for both arrays: half of the cost of a short call is memory for its result.
  const std::size_t n = scratch.found.size();
  auto memory = std::make_unique_for_overwrite<std::int32_t[]>(2 * n + 1);
  auto* labels = memory.get();
  auto* scores = reinterpret_cast<float*>(labels + n);
  for (std::size_t i = 0; i < n; ++i) {
    labels[i] = self.shown(scratch.found[i].label);
    std::memcpy(&scores[i], &scratch.found[i].score, sizeof(float));
  }
  const nb::capsule out(memory.release(), [](void* p) noexcept { delete[] static_cast<std::int32_t*>(p); });
  return {Out<std::int32_t>(labels, {n}, out), Out<float>(scores, {n}, out)};
}

// Body, number of products, microseconds of the search, ids.
using AnswerOut = std::tuple<nb::bytes, std::size_t, std::int64_t, nb::bytes>;

AnswerOut py_answer(const MatchSet& self, const Vocabulary& vocabulary, std::size_t k, const SearchBounds& bounds,
                    const ProductTexts& products, bool titles, const nb::bytes& head, nb::handle text, bool with_ids) {
  self.check_vocabulary(vocabulary);
  static thread_local JsonScratch json;
  static thread_local std::vector<std::int32_t> labels;
  static thread_local std::vector<float> scores;
  nb::object owner;
  const std::string_view query = query_to_utf8(text, owner);
  MatchSetScratch& scratch = own_scratch();
  const std::string_view start{head.c_str(), head.size()};
  std::int64_t microseconds = 0;
  std::string_view json_body;
  without_gil([&] {  // held, it would delay the thread that takes requests in
    const auto started = std::chrono::steady_clock::now();
    vectorize(query, vocabulary.view(), scratch.query);
    search_match_set(self.view(), k, bounds, self.find_allowed(nullptr), scratch);
    const auto taken = std::chrono::steady_clock::now() - started;
    microseconds = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
    labels.clear(), scores.clear();
    for (const auto& [label, score] : scratch.found) labels.push_back(self.shown(label)), scores.push_back(score);
    json_body = write_answer(start, query, microseconds, products.ids(), titles ? products.titles() : nullptr, labels,
                             scores, json);
  });
  const auto to_bytes = [](std::string_view text) { return nb::bytes(text.data(), text.size()); };
  const nb::bytes body = to_bytes(json_body);
  const nb::bytes ids = to_bytes(with_ids ? write_ids(products.ids(), labels, json) : std::string_view());
  return {body, labels.size(), microseconds, ids};
}

constexpr std::size_t kQueries = 16;  // per item of work

// Calls visit(i, scratch) for each text, whose features are in scratch.query.
template <typename Visit>
void for_each_text(const Vocabulary& vocabulary, const StringsView& texts, unsigned threads, Visit&& visit) {
  parallel_for((texts.size() + kQueries - 1) / kQueries, threads, [&](std::size_t item) {
    MatchSetScratch& scratch = own_scratch();
    for (std::size_t i = item * kQueries; i < std::min(texts.size(), (item + 1) * kQueries); ++i) {
      vectorize(texts[i], vocabulary.view(), scratch.query);
      visit(i, scratch);
    }
  });
}

CsrOut py_search_texts(const MatchSet& self, const Vocabulary& vocabulary, const In<std::uint8_t>& data,
                       const In<std::int64_t>& offsets, std::size_t k, const SearchBounds& bounds,
                       const MatchSetFilter* allowed, unsigned threads) {
  self.check_vocabulary(vocabulary);
  const auto texts = to_strings(data, offsets);
  std::vector<std::vector<RankedProduct>> rows(texts.size());
  std::vector<std::int64_t> begins{0};
  std::vector<std::int32_t> labels;
  std::vector<float> scores;
  without_gil([&] {
    for_each_text(vocabulary, texts, threads, [&](std::size_t i, MatchSetScratch& scratch) {
      search_match_set(self.view(), k, bounds, self.find_allowed(allowed), scratch);
      rows[i] = scratch.found;
    });
    for (const auto& row : rows) {
      for (const auto& [label, score] : row) labels.push_back(self.shown(label)), scores.push_back(score);
      begins.push_back(static_cast<std::int64_t>(labels.size()));
    }
  });
  return {to_numpy<std::int64_t>(std::move(begins)), to_numpy<std::int32_t>(std::move(labels)),
          to_numpy<float>(std::move(scores))};
}

using FeaturesOut = std::tuple<Out<std::int64_t>, Out<std::int32_t>, Out<float>, Out<std::uint8_t>>;

FeaturesOut py_features(const MatchSet& self, const Vocabulary& vocabulary, const In<std::uint8_t>& data,
                        const In<std::int64_t>& offsets, const SearchBounds& bounds, const MatchSetFilter* allowed,
                        unsigned threads) {
  self.check_vocabulary(vocabulary);
  const auto texts = to_strings(data, offsets);
  struct Row {
    std::vector<std::int32_t> labels;
    std::vector<float> features;
    std::vector<std::uint8_t> sources;
  };
  std::vector<Row> rows(texts.size());
  std::vector<std::int64_t> begins{0};
  Row all;
  without_gil([&] {
    for_each_text(vocabulary, texts, threads, [&](std::size_t i, MatchSetScratch& scratch) {
      describe_candidates(self.view(), bounds, self.find_allowed(allowed), scratch);
      for (const auto& entry : scratch.candidates.entries()) {
        rows[i].labels.push_back(self.shown(entry.document));
        rows[i].sources.push_back(entry.value.sources);
      }
      for (const Features& f : scratch.features) rows[i].features.insert(rows[i].features.end(), f.begin(), f.end());
    });
    std::size_t n = 0;
    for (const Row& row : rows) begins.push_back(static_cast<std::int64_t>(n += row.labels.size()));
    all.labels.reserve(n), all.sources.reserve(n), all.features.reserve(n * kNFeatures);
    for (Row& row : rows) {
      all.labels.insert(all.labels.end(), row.labels.begin(), row.labels.end());
      all.sources.insert(all.sources.end(), row.sources.begin(), row.sources.end());
      all.features.insert(all.features.end(), row.features.begin(), row.features.end());
      row = {};
    }
  });
  return {to_numpy<std::int64_t>(std::move(begins)), to_numpy<std::int32_t>(std::move(all.labels)),
          to_numpy<float>(std::move(all.features)), to_numpy<std::uint8_t>(std::move(all.sources))};
}

Out<double> py_fit_softmax(const In<float>& features, const In<std::int64_t>& offsets,
                           const In<std::uint8_t>& is_positive, const In<std::uint8_t>& kinds, const In<double>& ridge,
                           std::size_t n_kinds, unsigned threads) {
  check(n_kinds >= 1, "n_kinds must be at least 1", n_kinds);
  const std::size_t n_features = ridge.size() / n_kinds;
  const CandidateSets sets{to_span(features),    n_features,     to_span(offsets),
                           to_span(is_positive), to_span(kinds), n_kinds};
  return to_numpy<double>(without_gil([&] { return fit_softmax(sets, to_span(ridge), threads); }));
}

// The same on every machine, unlike NumPy's, which depends on the instructions that it finds.
Out<double> py_log_fixed(const In<double>& values) {
  std::vector<double> logarithms(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values.data()[i];
    if (!(value > 0) || !std::isfinite(value))
      throw std::invalid_argument("values must be positive and finite; got " + std::to_string(value));
    logarithms[i] = log_fixed(value);
  }
  return to_numpy<double>(std::move(logarithms));
}

void py_init_bounds(SearchBounds* self, std::size_t tree_beam, std::size_t tree_products, std::size_t groups,
                    std::size_t lists, std::size_t list_products, std::size_t lexical_postings,
                    std::size_t lexical_products, std::size_t neighbor_postings, std::size_t neighbors,
                    std::size_t neighbor_products) {
  static constexpr std::size_t kMost = std::size_t{1} << 31;
  const auto bound = [](std::size_t value) {
    check(value >= 1, "a bound must be at least 1", value);
    return std::min(value, kMost);
  };
  new (self)
      SearchBounds{bound(tree_beam),     bound(tree_products),    bound(groups),           bound(lists),
                   bound(list_products), bound(lexical_postings), bound(lexical_products), bound(neighbor_postings),
                   bound(neighbors),     bound(neighbor_products)};
}

void bind_searches(nb::class_<MatchSet>& match_set) {
  match_set
      .def("search_text", &py_search_text, "vocabulary"_a, "text"_a, "k"_a, "bounds"_a, "allowed"_a.none() = nb::none(),
           nb::sig("def search_text(self, vocabulary: Vocabulary, text: str, k: int, bounds: SearchBounds, "
                   "allowed: MatchSetFilter | None = None) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32]]"),
           "Labels and calibrated scores of one text, best first.")
      .def("answer", &py_answer, "vocabulary"_a, "k"_a, "bounds"_a, "products"_a, "titles"_a, "head"_a, "text"_a,
           "with_ids"_a,
           nb::sig("def answer(self, vocabulary: Vocabulary, k: int, bounds: SearchBounds, products: ProductTexts, "
                   "titles: bool, head: bytes, text: str, with_ids: bool) -> tuple[bytes, int, int, bytes]"),
           "`head` with query, microseconds and products of one text as JSON; how many products, microseconds, ids.")
      .def("search_texts", &py_search_texts, "vocabulary"_a, "data"_a.noconvert(), "offsets"_a.noconvert(), "k"_a,
           "bounds"_a, "allowed"_a.none() = nb::none(), nb::kw_only(), "threads"_a,
           "Offsets, labels and calibrated scores of texts, each best first.")
      .def("features", &py_features, "vocabulary"_a, "data"_a.noconvert(), "offsets"_a.noconvert(), "bounds"_a,
           "allowed"_a.none() = nb::none(), nb::kw_only(), "threads"_a,
           "Offsets, labels, features and sources of the candidates of texts, as search ranks them.");
}

}  // namespace

void bind_match_set(nb::module_& m) {
  nb::class_<SearchBounds>(m, "SearchBounds", "How much each candidate source reads and proposes.")
      .def("__init__", &py_init_bounds, nb::kw_only(), "tree_beam"_a, "tree_products"_a, "groups"_a, "lists"_a,
           "list_products"_a, "lexical_postings"_a, "lexical_products"_a, "neighbor_postings"_a, "neighbors"_a,
           "neighbor_products"_a);
  nb::class_<MatchSetFilter>(m, "MatchSetFilter", "Products that a match set may return.");
  auto match_set =
      nb::class_<MatchSet>(m, "MatchSet", "A view over the parts of a match set; None for one that is left out.")
          .def(nb::init<nb::object, std::optional<TowerArrays>, std::optional<LexicalArrays>, std::optional<PastArrays>,
                        In<float>, In<float>, RerankerArrays, std::optional<AddedArrays>>(),
               nb::kw_only(), "tree"_a.none(), "towers"_a.none().noconvert(), "lexical"_a.none().noconvert(),
               "past"_a.none().noconvert(), "popularity"_a.noconvert(), "recent"_a.noconvert(),
               "reranker"_a.noconvert(), "added"_a.none().noconvert() = nb::none())
          .def("allow", &py_allow, "is_allowed"_a.noconvert(), "Prepare a filter from one boolean per product.");
  bind_searches(match_set);
  m.def(
      "feature_names",
      [] {
        std::vector<std::string> names(kFeatureNames.begin(), kFeatureNames.end());
        return names;
      },
      "Names of a candidate's features, in their order.");
  m.def("fit_softmax", &py_fit_softmax, "features"_a.noconvert(), "offsets"_a.noconvert(), "is_positive"_a.noconvert(),
        "kinds"_a.noconvert(), "ridge"_a.noconvert(), nb::kw_only(), "n_kinds"_a, "threads"_a,
        "Weights of each kind and feature, of a softmax over the candidates of each query.");
  m.def("log_fixed", &py_log_fixed, "values"_a.noconvert(),
        "Natural logarithms of positive numbers, the same on every machine.");
}

}  // namespace matchset
