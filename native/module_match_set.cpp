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
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "json_products.hpp"
#include "module.hpp"
#include "newton.hpp"
#include "python_arrays.hpp"
#include "python_match_set.hpp"
#include "python_products.hpp"
#include "reranker.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

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

using FeaturesOut = std::tuple<Out<std::int64_t>, Out<std::int32_t>, Out<float>, Out<std::uint8_t>, Out<std::uint8_t>>;

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
  std::vector<std::uint8_t> situations(texts.size());
  Row all;
  without_gil([&] {
    for_each_text(vocabulary, texts, threads, [&](std::size_t i, MatchSetScratch& scratch) {
      describe_candidates(self.view(), bounds, self.find_allowed(allowed), scratch);
      situations[i] = static_cast<std::uint8_t>(scratch.situation);
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
          to_numpy<float>(std::move(all.features)), to_numpy<std::uint8_t>(std::move(all.sources)),
          to_numpy<std::uint8_t>(std::move(situations))};
}

Out<double> py_fit_softmax(const In<float>& features, const In<std::int64_t>& offsets,
                           const In<std::uint8_t>& is_positive, const In<std::uint8_t>& kinds, const In<double>& shares,
                           const In<double>& center, const In<double>& precision, std::size_t n_kinds,
                           unsigned threads) {
  check(n_kinds >= 1, "n_kinds must be at least 1", n_kinds);
  const std::size_t n_features = center.size() / n_kinds;
  const CandidateSets sets{to_span(features), n_features, to_span(offsets), to_span(is_positive),
                           to_span(kinds),    n_kinds,    to_span(shares)};
  const Prior prior{to_span(center), to_span(precision)};
  return to_numpy<double>(without_gil([&] { return fit_softmax(sets, prior, threads); }));
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

void check_share(float share, float shift) {
  if (!(share >= 0 && share <= 1)) throw std::invalid_argument("cold_share must be from 0 to 1");
  if (!std::isfinite(shift)) throw std::invalid_argument("cold_shift must be finite");
}

void py_init_bounds(SearchBounds* self, std::size_t tree_beam, std::size_t tree_products, std::size_t groups,
                    std::size_t lists, std::size_t list_products, std::size_t lexical_postings,
                    std::size_t lexical_products, std::size_t neighbor_postings, std::size_t neighbors,
                    std::size_t neighbor_products, float cold_share, float cold_shift) {
  static constexpr std::size_t kMost = std::size_t{1} << 31;
  check_share(cold_share, cold_shift);
  const auto bound = [](std::size_t value) {
    check(value >= 1, "a bound must be at least 1", value);
    return std::min(value, kMost);
  };
  new (self) SearchBounds{bound(tree_beam),
                          bound(tree_products),
                          bound(groups),
                          bound(lists),
                          bound(list_products),
                          bound(lexical_postings),
                          bound(lexical_products),
                          bound(neighbor_postings),
                          bound(neighbors),
                          bound(neighbor_products),
                          cold_share,
                          cold_shift};
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
           "Offsets, labels, features and sources of the candidates of texts, as search ranks them; situations of "
           "texts.");
}

}  // namespace

void bind_match_set(nb::module_& m) {
  nb::class_<SearchBounds>(m, "SearchBounds", "How much each candidate source reads and proposes.")
      .def("__init__", &py_init_bounds, nb::kw_only(), "tree_beam"_a, "tree_products"_a, "groups"_a, "lists"_a,
           "list_products"_a, "lexical_postings"_a, "lexical_products"_a, "neighbor_postings"_a, "neighbors"_a,
           "neighbor_products"_a, "cold_share"_a = 0.0F, "cold_shift"_a = 0.0F);
  nb::class_<MatchSetFilter>(m, "MatchSetFilter", "Products that a match set may return.");
  auto match_set =
      nb::class_<MatchSet>(m, "MatchSet", "A view over the parts of a match set; None for one that is left out.")
          .def(nb::init<nb::object, std::optional<TowerArrays>, std::optional<LexicalArrays>, std::optional<PastArrays>,
                        In<float>, In<float>, RerankerArrays, std::optional<AddedArrays>, std::optional<HeirArrays>>(),
               nb::kw_only(), "tree"_a.none(), "towers"_a.none().noconvert(), "lexical"_a.none().noconvert(),
               "past"_a.none().noconvert(), "popularity"_a.noconvert(), "recent"_a.noconvert(),
               "reranker"_a.noconvert(), "added"_a.none().noconvert() = nb::none(),
               "heirs"_a.none().noconvert() = nb::none())
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
        "kinds"_a.noconvert(), "shares"_a.noconvert(), "center"_a.noconvert(), "precision"_a.noconvert(), nb::kw_only(),
        "n_kinds"_a, "threads"_a,
        "Weights of each kind and feature, of a softmax over the candidates of each query, near a center.");
  m.def("log_fixed", &py_log_fixed, "values"_a.noconvert(),
        "Natural logarithms of positive numbers, the same on every machine.");
}

}  // namespace matchset
