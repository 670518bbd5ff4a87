// Linear re-ranker: how are several scores of a candidate weighed against each other?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "newton.hpp"

namespace matchset {

// The candidates of some queries, each with its features, and which of them are right. Each kind of candidate, such as
// cold and warm products, has weights of its own.
struct CandidateSets {
  std::span<const float> features;  // (n_candidates, n_features), row by row
  std::size_t n_features;
  std::span<const std::int64_t> offsets;      // candidates of each query, (n_queries + 1,)
  std::span<const std::uint8_t> is_positive;  // (n_candidates,)
  std::span<const std::uint8_t> kinds;        // (n_candidates,); n_kinds: left out
  std::size_t n_kinds;
  std::span<const double> shares;  // of each query in the loss, (n_queries,)

  std::size_t n_queries() const { return offsets.size() - 1; }
  std::size_t n_weights() const { return n_kinds * n_features; }
};

// Weights of each kind and feature, of a softmax over the candidates of each query, in which its positives share what
// is right evenly. Queries without a positive, or with nothing else, teach nothing. The loss is a sum over queries.
std::vector<double> fit_softmax(const CandidateSets& sets, const Prior& prior, unsigned n_threads);

}  // namespace matchset
