// One layer: what are the weights of all children of some nodes?
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "buffer.hpp"
#include "csr.hpp"
#include "solver.hpp"

namespace matchset {

struct LayerProblem {
  CsrView X;                                  // instances x features
  ListsView instances;                        // of each parent: rows of X that train its children, ascending
  ListsView positives;                        // of each child: rows of X, ascending
  std::span<const float> weights;             // of each positive, or none
  std::span<const std::int64_t> first_child;  // of each parent, and the end, (n_parents + 1,)
  std::size_t first_parent = 0;               // number of the first of these parents in its layer, which seeds it
};

struct PruneRule {
  // Weights of at most this magnitude are dropped; of the others, each child keeps the `max_weights` largest.
  float threshold;
  std::size_t max_weights = std::numeric_limits<std::size_t>::max();
};

// Weights by parent, feature and child: for each parent its features ascend, for each feature its children.
struct LayerWeights {
  Buffer<std::int64_t> n_features;  // of each parent, (n_parents,)
  Buffer<std::int32_t> features;    // (n_rows,)
  Buffer<std::int32_t> n_entries;   // of each feature, (n_rows,)
  Buffer<std::uint16_t> children;   // number of the child among its siblings, (n_entries,)
  Buffer<float> weights;            // (n_entries,)
  Buffer<float> bias;               // of each child, (n_children,)
  std::int64_t n_unfinished = 0;    // children whose solver reached max_iter
};

// Bias of a child without positives: the limit of the margin in a problem with negatives only.
inline constexpr float kNeverBias = -1.0F;

// Solves the children of all these parents, one parent after another; threads share its children. A parent's result
// depends neither on the others nor on the threads.
LayerWeights solve_parents(const LayerProblem& problem, const SolverRule& rule, const PruneRule& prune,
                           unsigned n_threads);

}  // namespace matchset
