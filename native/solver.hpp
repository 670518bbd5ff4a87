// Sparse linear classifiers: which features indicate which child of a node?
//
// For each child one binary problem over the node's instances,
//
//     min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i w.x_i)^2,
//
// solved in its dual by coordinate descent with shrinking (Hsieh et al. 2008, algorithm 3) and
// over-relaxed steps (Mangasarian and Musicant 1999). Children are solved side by side, one vector
// lane each, over the same rows in the same order; what a lane computes depends on its own label
// alone, so neither batches nor threads can change a weight.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gather.hpp"

namespace matchset {

struct SolverRule {
  float positive_cost;  // C_i of a positive instance of weight one
  float negative_cost;  // C_i of a negative instance
  float bias;           // value of the constant feature; its weight is regularized like any other
  // Stop when the duality gap is at most this share of the objective, or after this many passes over the instances.
  float tol;
  int max_iter;
  std::uint64_t seed;
};

// Positive instances of one child, and their weights relative to positive_cost (if empty, all are one).
struct Positives {
  std::vector<std::uint32_t> rows;  // indices into NodeProblem::rows
  std::vector<float> weights;
};

// Solutions of up to 16 children, lane by lane.
struct BatchSolution {
  std::size_t n_lanes = 0;
  Buffer<float> weight;          // (n_columns, n_lanes)
  Buffer<float> dual;            // y_i alpha_i, (n_rows, n_lanes)
  std::vector<float> bias;       // of the constant feature, times its value, (n_lanes,)
  std::size_t n_unfinished = 0;  // lanes that reached max_iter
};

BatchSolution solve_batch(const NodeProblem& problem, std::span<const Positives* const> labels, const SolverRule& rule);

}  // namespace matchset
