// Sparse linear matcher: which features speak for which child of a node?
//
// For each child one binary problem over the node's instances,
//
//     min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i w.x_i)^2,
//
// solved in its dual by coordinate descent with shrinking (Hsieh et al. 2008, algorithm 3). Children
// are solved side by side, one vector lane each, over the same rows in the same order; what a lane
// computes depends on its own label alone, so neither blocks nor threads can change a weight.
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
  // Stop when, over a pass of all instances, the largest and the smallest projected gradient of the
  // dual differ by at most this much (as in LIBLINEAR), or after this many passes.
  float tolerance;
  int max_passes;
  std::uint64_t seed;
};

// Where one child is positive, and with which weights relative to positive_cost (none: all are one).
struct Positives {
  std::vector<std::uint32_t> rows;  // places in NodeProblem::rows
  std::vector<float> weights;
};

// A dual point that every child of the node can start from: the solution of the problem in which all
// instances are negative. A child has few positives, so its own solution is near.
struct Start {
  std::vector<float> alpha;   // (n_rows,)
  std::vector<float> weight;  // (n_columns,)
  float bias = 0;             // weight of the constant feature
};

Start solve_start(const NodeProblem& problem, const SolverRule& rule);

// Solutions of up to 16 children, lane by lane.
struct BlockSolution {
  std::size_t n_lanes = 0;
  std::vector<float> weight;  // (n_columns, n_lanes)
  std::vector<float> dual;    // y_i alpha_i, (n_rows, n_lanes)
  std::vector<float> bias;    // of the constant feature, times its value, (n_lanes,)
  std::size_t n_unfinished = 0;  // lanes that used up max_passes
};

BlockSolution solve_block(const NodeProblem& problem, const Start& start, std::span<const Positives* const> labels,
                          const SolverRule& rule);

}  // namespace matchset
