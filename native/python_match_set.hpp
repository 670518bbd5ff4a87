// A match set as Python holds it: its parts, made of arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "match_set.hpp"
#include "python_arrays.hpp"
#include "python_csr.hpp"
#include "python_tree.hpp"
#include "python_vocabulary.hpp"

namespace matchset {

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
// Weights; knots and log-odds of all calibrations, and where each of them begins.
using RerankerArrays = std::tuple<In<float>, In<float>, In<float>, In<std::int64_t>>;

inline ByteVectors to_vectors(const Bytes& vectors, std::size_t dimensions) {
  const auto& [values, scales] = vectors;
  check(values.size() == scales.size() * dimensions, "vectors must have " + std::to_string(dimensions) + " bytes each",
        values.size());
  return {to_span(values), to_span(scales), dimensions};
}

inline ImpactLists to_impacts(const Impacts& impacts, std::size_t n_documents) {
  const auto& [offsets, documents, values] = impacts;
  check(documents.size() == values.size(), "there must be one impact per document", values.size());
  return {to_lists(offsets, documents), to_span(values), n_documents};
}

inline TowersView to_towers(const TowerArrays& arrays, std::size_t n_products) {
  const auto& [row_of, table, offsets, vectors, labels, position_of, d] = arrays;
  check(d > 0 && d % 16 == 0, "dimensions must be a positive multiple of 16", d);
  check(position_of.size() == n_products, "there must be one position per product", position_of.size());
  const auto& [groups, clusters, products] = vectors;
  const InvertedLists lists{to_span(std::get<0>(offsets)), to_span(std::get<1>(offsets)), to_vectors(groups, d),
                            to_vectors(clusters, d),       to_vectors(products, d),       to_span(labels)};
  lists.check();
  return {to_span(row_of), to_vectors(table, d), lists, to_span(position_of)};
}

inline LexicalIndex to_lexical(const LexicalArrays& arrays, std::size_t n_products) {
  const auto& [titles_of, words_of, row_of, scale, _] = arrays;
  const ImpactLists words = to_impacts(words_of, 0);
  check(row_of.size() == n_products, "there must be one row of words per product", row_of.size());
  return {to_impacts(titles_of, n_products), words.lists, words.impacts, to_span(row_of), static_cast<float>(scale)};
}

inline PastQueries to_past(const PastArrays& arrays, std::size_t n_products) {
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
inline AddedProducts to_added(const AddedArrays& arrays, const MatchSetView& view) {
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

inline Reranker to_reranker(const RerankerArrays& arrays) {
  const auto& [weights, knots, log_odds, offsets] = arrays;
  constexpr std::size_t kWeights = kNSituations * 2 * kNFeatures;
  check(weights.size() == kWeights, "there must be " + std::to_string(kWeights) + " weights", weights.size());
  check(knots.size() == log_odds.size(), "there must be as many knots as log-odds", knots.size());
  check(offsets.size() == kNSituations + 1, "there must be one calibration of each situation", offsets.size());
  check(offsets.data()[kNSituations] == static_cast<std::int64_t>(knots.size()), "offsets must end at the last knot",
        knots.size());
  Reranker reranker{};
  const float* from = weights.data();
  for (std::size_t i = 0; i < kNSituations; ++i) {
    for (Features& row : reranker.weights[i]) {
      std::copy_n(from, kNFeatures, row.begin());
      from += kNFeatures;
    }
    const std::int64_t begin = offsets.data()[i], end = offsets.data()[i + 1];
    check(begin >= 0 && begin < end && end <= static_cast<std::int64_t>(knots.size()),
          "each calibration must have a knot", knots.size());
    const auto own = [&](const In<float>& all) {
      return to_span(all).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    };
    reranker.calibrations[i] = {own(knots), own(log_odds)};
    check(std::ranges::is_sorted(reranker.calibrations[i].knots), "knots must ascend", knots.size());
  }
  return reranker;
}

using HeirArrays = std::tuple<In<std::int32_t>, In<std::int32_t>>;  // products, and who lends to each

// The products that each trained one lends its place to, in the order of their labels.
struct Heirs {
  std::vector<std::uint32_t> begins, labels;

  Heirs() = default;
  Heirs(const HeirArrays& arrays, std::size_t n_trained, std::size_t n_products) {
    const auto heirs = to_span(std::get<0>(arrays)), lenders = to_span(std::get<1>(arrays));
    check(heirs.size() == lenders.size(), "there must be one lender per heir", lenders.size());
    if (heirs.empty()) return;
    begins.resize(n_trained + 2);
    for (std::size_t i = 0; i < heirs.size(); ++i) {
      check(static_cast<std::size_t>(heirs[i]) < n_products, "heirs must be products", i);  // a negative one is huge
      check(static_cast<std::size_t>(lenders[i]) < n_trained, "lenders must be trained products", i);
      ++begins[static_cast<std::size_t>(lenders[i]) + 2];
    }
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    labels.resize(heirs.size());
    for (std::size_t i = 0; i < heirs.size(); ++i)
      labels[begins[static_cast<std::size_t>(lenders[i]) + 1]++] = static_cast<std::uint32_t>(heirs[i]);
    begins.pop_back();
  }
};

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
  MatchSet(nanobind::object tree, std::optional<TowerArrays> towers, std::optional<LexicalArrays> lexical,
           std::optional<PastArrays> past, In<float> popularity, In<float> recent, RerankerArrays reranker,
           std::optional<AddedArrays> added, std::optional<HeirArrays> heirs)
      : tree_(std::move(tree)), towers_(std::move(towers)), lexical_(std::move(lexical)), past_(std::move(past)),
        popularity_(std::move(popularity)), recent_(std::move(recent)), reranker_(std::move(reranker)),
        added_(std::move(added)) {
    view_.popularity = to_span(popularity_);
    view_.recent = to_span(recent_);
    check(recent_.size() == popularity_.size(), "there must be one number of recent events per product",
          recent_.size());
    const std::size_t n = n_shown_ = view_.n_products();
    if (!tree_.is_none()) {
      packed_ = &nanobind::cast<const PackedTree&>(tree_);
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
    if (added_) view_.added = to_added(*added_, view_);
    if (heirs) heirs_ = Heirs(*heirs, view_.n_trained(), view_.n_products());
    view_.heir_begins = heirs_.begins, view_.heirs = heirs_.labels;
    if (added_) leave_out_removed();
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
      std::vector<std::uint8_t> in_tree(filter.is_allowed.begin(),
                                        filter.is_allowed.begin() + static_cast<std::ptrdiff_t>(view_.n_trained()));
      for (std::size_t label = 0; label + 1 < heirs_.begins.size(); ++label)  // also those that lend to what is allowed
        for (std::size_t i = heirs_.begins[label]; i < heirs_.begins[label + 1]; ++i)
          in_tree[label] |= filter.is_allowed[heirs_.labels[i]];
      filter.tree.emplace(packed_->view(), packed_->by_leaf(std::span<const std::uint8_t>(in_tree)));
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
  void leave_out_removed() {
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

  nanobind::object tree_;
  std::optional<TowerArrays> towers_;
  std::optional<LexicalArrays> lexical_;
  std::optional<PastArrays> past_;
  In<float> popularity_, recent_;
  RerankerArrays reranker_;
  std::optional<AddedArrays> added_;
  Heirs heirs_;
  const PackedTree* packed_ = nullptr;
  MatchSetView view_;
  std::span<const std::int32_t> shown_;  // product of each label, ascending, -1 where removed; empty: the label itself
  std::size_t n_shown_ = 0;
  std::optional<MatchSetFilter> present_;  // all but removed ones; empty: all
};

}  // namespace matchset
