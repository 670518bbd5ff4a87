#include "solver.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <numeric>

#include "clones.hpp"
#include "lanes.hpp"
#include "seeds.hpp"

namespace matchset {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Aligned to a cache line, so that a row of sixteen lanes never crosses one.
struct AlignedFree {
  void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
class LaneArray {
 public:
  explicit LaneArray(std::size_t n)
      : data_(static_cast<float*>(::operator new[](std::max<std::size_t>(1, n) * sizeof(float), std::align_val_t{64}))) {}
  float* data() const { return data_.get(); }

 private:
  std::unique_ptr<float[], AlignedFree> data_;
};

// State of a block; every array has one row of N lanes per item.
template <std::size_t N>
struct Block {
  Block(const NodeProblem& problem)
      : weight(problem.n_columns * N), alpha(problem.n_rows() * N), slack(problem.n_rows() * N) {}

  Floats<N>* weights() const { return reinterpret_cast<Floats<N>*>(weight.data()); }
  Floats<N>* alphas() const { return reinterpret_cast<Floats<N>*>(alpha.data()); }
  Floats<N>* slacks() const { return reinterpret_cast<Floats<N>*>(slack.data()); }

  LaneArray weight;   // (n_columns, N)
  LaneArray alpha;    // dual variables; -1 marks one that is zero and shrunk, (n_rows, N)
  LaneArray slack;    // y_i / (2 C_i), (n_rows, N)
  Floats<N> bias{};   // weight of the constant feature
  Bits<N> is_live{};  // lanes still being solved
  int n_passes = 0;
};

// What a pass leaves for the stopping rule.
template <std::size_t N>
struct PassEnd {
  Floats<N> highest;  // projected gradient
  Floats<N> lowest;
  Bits<N> has_shrunk;
};

template <std::size_t N>
MATCHSET_INLINE Floats<N> dot(const NodeProblem& problem, const Floats<N>* weights, std::size_t begin, std::size_t end) {
  Floats<N> sums[4] = {};  // four chains hide the latency of the additions
  const std::uint32_t* column = problem.column.data();
  const float* value = problem.value.data();
  std::size_t k = begin;
  for (; k + 4 <= end; k += 4) {
    sums[0] += value[k] * weights[column[k]];
    sums[1] += value[k + 1] * weights[column[k + 1]];
    sums[2] += value[k + 2] * weights[column[k + 2]];
    sums[3] += value[k + 3] * weights[column[k + 3]];
  }
  for (; k < end; ++k) sums[0] += value[k] * weights[column[k]];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// One coordinate step for instance i in every live lane.
template <std::size_t N>
MATCHSET_INLINE void visit(const NodeProblem& problem, Block<N>& block, float bias, std::size_t i,
                           const Floats<N>& limit, PassEnd<N>& end) {
  const Floats<N> alpha = block.alphas()[i];
  Bits<N> is_live = block.is_live & (alpha >= 0);
  if (!any<N>(is_live)) return;
  const std::size_t first = problem.begin[i], last = problem.begin[i + 1];
  Floats<N>* weights = block.weights();
  const Floats<N> zero{}, slack = block.slacks()[i];
  const Floats<N> y = slack > 0 ? zero + 1.0F : zero - 1.0F, half_cost = y * slack;
  const Floats<N> margin = y * (dot<N>(problem, weights, first, last) + bias * block.bias) + alpha * problem.own[i];
  const Floats<N> gradient = margin - 1.0F + alpha * half_cost;

  const Bits<N> is_shrunk = is_live & (alpha == 0) & (gradient > limit);
  is_live &= ~is_shrunk;
  end.has_shrunk |= is_shrunk;
  const Floats<N> projected = alpha > 0 ? gradient : smaller<N>(gradient, zero);
  end.highest = is_live ? larger<N>(end.highest, projected) : end.highest;
  end.lowest = is_live ? smaller<N>(end.lowest, projected) : end.lowest;

  const float length = problem.squared_length[i] + bias * bias;
  const Floats<N> next = larger<N>(alpha - gradient / (length + half_cost), zero);
  const Floats<N> step = is_live ? (next - alpha) * y : zero;
  block.alphas()[i] = is_live ? next : (is_shrunk ? zero - 1.0F : alpha);
  if (!any<N>(step != 0)) return;
  block.bias += step * bias;
  for (std::size_t k = first; k < last; ++k) weights[problem.column[k]] += problem.value[k] * step;
}

// Ends lanes that have converged, brings shrunk instances back where a lane only seems to have.
template <std::size_t N>
MATCHSET_INLINE void close_pass(std::size_t n_rows, Block<N>& block, const PassEnd<N>& end, float tolerance,
                                Floats<N>& limit, Bits<N>& has_shrunk) {
  for (std::size_t lane = 0; lane < N; ++lane) {
    if (!block.is_live[lane]) continue;
    limit[lane] = end.highest[lane] > 0 ? end.highest[lane] : kInfinity;
    has_shrunk[lane] |= end.has_shrunk[lane];
    if (!(end.highest[lane] - end.lowest[lane] > tolerance)) {
      if (!has_shrunk[lane]) block.is_live[lane] = 0;
      for (std::size_t i = 0; has_shrunk[lane] && i < n_rows; ++i)
        block.alpha.data()[i * N + lane] = std::max(block.alpha.data()[i * N + lane], 0.0F);
      has_shrunk[lane] = 0;
      limit[lane] = kInfinity;
    }
  }
}

template <std::size_t N>
MATCHSET_INLINE void descend(const NodeProblem& problem, Block<N>& block, const SolverRule& rule) {
  std::vector<std::uint32_t> order(problem.n_rows());
  std::iota(order.begin(), order.end(), 0U);
  Draws draws(rule.seed);
  Floats<N> limit = Floats<N>{} + kInfinity;
  Bits<N> has_shrunk{};
  for (; block.n_passes < rule.max_passes && any<N>(block.is_live); ++block.n_passes) {
    draws.shuffle(std::span(order));
    PassEnd<N> end{Floats<N>{} - kInfinity, Floats<N>{} + kInfinity, {}};
    for (const std::uint32_t i : order) visit<N>(problem, block, rule.bias, i, limit, end);
    close_pass<N>(problem.n_rows(), block, end, rule.tolerance, limit, has_shrunk);
  }
}

MATCHSET_CLONES void descend_16(const NodeProblem& p, Block<16>& b, const SolverRule& r) { descend<16>(p, b, r); }
MATCHSET_CLONES void descend_8(const NodeProblem& p, Block<8>& b, const SolverRule& r) { descend<8>(p, b, r); }
MATCHSET_CLONES void descend_4(const NodeProblem& p, Block<4>& b, const SolverRule& r) { descend<4>(p, b, r); }

void descend(const NodeProblem& p, Block<16>& b, const SolverRule& r) { descend_16(p, b, r); }
void descend(const NodeProblem& p, Block<8>& b, const SolverRule& r) { descend_8(p, b, r); }
void descend(const NodeProblem& p, Block<4>& b, const SolverRule& r) { descend_4(p, b, r); }

// Puts every lane at the start, less its positives' share of it.
template <std::size_t N>
void set_out(const NodeProblem& problem, const Start& start, std::span<const Positives* const> labels,
             const SolverRule& rule, Block<N>& block) {
  const Floats<N> zero{};
  for (std::size_t c = 0; c < problem.n_columns; ++c) block.weights()[c] = zero + start.weight[c];
  for (std::size_t i = 0; i < problem.n_rows(); ++i) {
    block.alphas()[i] = zero + start.alpha[i];
    block.slacks()[i] = zero - 0.5F / rule.negative_cost;
  }
  block.bias = zero + start.bias;
  for (std::size_t lane = 0; lane < labels.size(); ++lane) {
    const Positives& label = *labels[lane];
    block.is_live[lane] = label.rows.empty() ? 0 : -1;
    for (std::size_t p = 0; p < label.rows.size(); ++p) {
      const std::size_t i = label.rows[p];
      const float cost = rule.positive_cost * (label.weights.empty() ? 1.0F : label.weights[p]);
      block.slack.data()[i * N + lane] = 0.5F / cost;
      block.alpha.data()[i * N + lane] = 0;
      block.bias[lane] += start.alpha[i] * rule.bias;
      for (std::size_t k = problem.begin[i]; k < problem.begin[i + 1]; ++k)
        block.weight.data()[problem.column[k] * N + lane] += start.alpha[i] * problem.value[k];
    }
  }
}

template <std::size_t N>
BlockSolution solve_lanes(const NodeProblem& problem, const Start& start, std::span<const Positives* const> labels,
                          const SolverRule& rule) {
  Block<N> block(problem);
  set_out<N>(problem, start, labels, rule, block);
  descend(problem, block, rule);
  BlockSolution solution;
  solution.n_lanes = N;
  solution.weight.assign(block.weight.data(), block.weight.data() + problem.n_columns * N);
  solution.dual.resize(problem.n_rows() * N);
  for (std::size_t k = 0; k < solution.dual.size(); ++k) {
    const float alpha = std::max(block.alpha.data()[k], 0.0F);
    solution.dual[k] = block.slack.data()[k] > 0 ? alpha : -alpha;
  }
  for (std::size_t lane = 0; lane < labels.size(); ++lane) {
    solution.bias.push_back(block.bias[lane] * rule.bias);
    solution.n_unfinished += block.is_live[lane] != 0;
  }
  return solution;
}

}  // namespace

Start solve_start(const NodeProblem& problem, const SolverRule& rule) {
  Start start{std::vector<float>(problem.n_rows()), std::vector<float>(problem.n_columns), 0};
  Block<4> block(problem);
  set_out<4>(problem, start, {}, rule, block);
  block.is_live[0] = -1;
  descend(problem, block, rule);
  for (std::size_t i = 0; i < problem.n_rows(); ++i) start.alpha[i] = std::max(block.alphas()[i][0], 0.0F);
  for (std::size_t c = 0; c < problem.n_columns; ++c) start.weight[c] = block.weights()[c][0];
  start.bias = block.bias[0];
  return start;
}

BlockSolution solve_block(const NodeProblem& problem, const Start& start, std::span<const Positives* const> labels,
                          const SolverRule& rule) {
  if (labels.size() <= 4) return solve_lanes<4>(problem, start, labels, rule);
  if (labels.size() <= 8) return solve_lanes<8>(problem, start, labels, rule);
  return solve_lanes<16>(problem, start, labels, rule);
}

}  // namespace matchset
