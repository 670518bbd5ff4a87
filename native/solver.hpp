// Sparse linear matcher: which features speak for which child of a node?
//
// For each child one binary problem over the node's instances,
//
//     min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i w.x_i)^2,
//
// solved in its dual by coordinate descent with shrinking (Hsieh et al. 2008, algorithm 3) and
// over-relaxed steps (Mangasarian and Musicant 1999). Children are solved side by side, one vector
// lane each, over the same rows in the same order; what a lane computes depends on its own label
// alone, so neither blocks nor threads can change a weight.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gather.hpp"

namespace matchset {

struct SolverRule {
  float positive_cost;  // C_i of a positive instance of weight one
  float negative_cost;  // C_i of a negative instance
  float bias;           // value of the constant feature; its weight is regularised as any other
  // Stop when the duality gap is at most this share of the objective, or after this many passes.
  float tol;
  int max_iter;
  std::uint64_t seed;
};

// Where one child is positive, and with which weights relative to positive_cost (none: all are one).
struct Positives {
  std::vector<std::uint32_t> rows;  // indices into NodeProblem::rows
  std::vector<float> weights;
};

// Solutions of up to 16 children, lane by lane.
struct BatchSolution {
  std::size_t n_lanes = 0;
  std::vector<float> weight;  // (n_columns, n_lanes)
  std::vector<float> dual;    // y_i alpha_i, (n_rows, n_lanes)
  std::vector<float> bias;    // of the constant feature, times its value, (n_lanes,)
  std::size_t n_unfinished = 0;  // lanes that used up max_iter
};

BatchSolution solve_batch(const NodeProblem& problem, std::span<const Positives* const> labels, const SolverRule& rule);

}  // namespace matchset
