#include "solver.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <numeric>

#include "buffer.hpp"
#include "rng.hpp"
#include "simd.hpp"
#include "target_clones.hpp"

namespace matchset {
namespace {

// Over-relaxation: steps this much longer than to the coordinate's optimum save a fifth of the passes; they converge if
// the factor is below 2.
constexpr float kRelaxation = 1.4F;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Aligned to a cache line, so that a row of sixteen lanes never crosses one.
constexpr std::size_t kLine = 64;
struct Release {
  void operator()(void* p) const { release(p); }
};
class LaneArray {
 public:
  explicit LaneArray(std::size_t n) : memory_(allocate(n * sizeof(float) + kLine)) {
    if (!memory_) throw std::bad_alloc();
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.get());
    data_ = reinterpret_cast<float*>((begin + kLine - 1) / kLine * kLine);
  }
  float* data() const { return data_; }

 private:
  std::unique_ptr<void, Release> memory_;
  float* data_;
};

// State of the solver; every array has one row of N lanes per item. Dual variables are kept as
// beta = alpha / (2 C_i): at the optimum beta_i is the slack max(0, 1 - y_i w.x_i).
template <std::size_t N>
struct SolverState {
  explicit SolverState(const NodeProblem& problem)
      : weight(problem.n_columns * N), beta(problem.n_rows() * N), cost(problem.n_rows() * N) {}

  StoredFloats<N>* weights() const { return reinterpret_cast<StoredFloats<N>*>(weight.data()); }
  StoredFloats<N>* betas() const { return reinterpret_cast<StoredFloats<N>*>(beta.data()); }
  StoredFloats<N>* costs() const { return reinterpret_cast<StoredFloats<N>*>(cost.data()); }

  LaneArray weight;      // (n_columns, N)
  LaneArray beta;        // dual variables; -1 marks one that is zero and shrunk, (n_rows, N)
  LaneArray cost;        // 2 C_i y_i, (n_rows, N)
  Floats<N> bias{};      // weight of the constant feature
  Bits<N> is_live{};     // lanes still being solved
  Bits<N> is_checked{};  // of these, lanes that do not move for one pass, to check whether they are done
  int n_iter = 0;
};

// What a pass measures for stopping and shrinking.
template <std::size_t N>
struct PassEnd {
  Floats<N> gap{};      // twice the duality gap
  Floats<N> value{};    // twice the primal objective
  Floats<N> highest{};  // largest projected gradient
};

template <std::size_t N>
MATCHSET_INLINE Floats<N> dot(const NodeProblem& problem, const StoredFloats<N>* weights, std::size_t begin,
                              std::size_t end) {
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
MATCHSET_INLINE void visit(const NodeProblem& problem, SolverState<N>& state, float bias, std::size_t i,
                           const Floats<N>& limit, PassEnd<N>& end) {
  const Floats<N> beta = state.betas()[i];
  Bits<N> is_live = state.is_live & ~is_negative<N>(beta);
  if (!any<N>(is_live)) return;
  const std::size_t first = problem.begin[i], last = problem.begin[i + 1];
  StoredFloats<N>* weights = state.weights();
  const Floats<N> zero{}, signed_cost = state.costs()[i], y = sign_of<N>(signed_cost), cost = y * signed_cost;
  const Floats<N> score = dot<N>(problem, weights, first, last) + bias * state.bias;
  const Floats<N> excess = y * score + cost * beta * problem.own[i] - 1.0F;  // of the margin over one
  const Floats<N> gradient = excess + beta;

  const Bits<N> is_positive = is_negative<N>(zero - beta), misses = is_negative<N>(excess);
  const Bits<N> is_shrunk = is_live & ~is_positive & is_negative<N>(limit - gradient);
  is_live &= ~is_shrunk;
  const Floats<N> in_play = select<N>(is_live, cost, zero);
  end.gap += in_play * select<N>(misses, gradient * gradient, beta * (excess + gradient));
  end.value += in_play * (beta * (excess + 1.0F) + select<N>(misses, excess * excess, zero));
  end.highest = larger<N>(end.highest, select<N>(is_live & is_positive, gradient, zero));

  const float length = problem.squared_length[i] + bias * bias;
  const Floats<N> next = positive_part<N>(beta - kRelaxation * gradient / (cost * length + 1.0F));
  const Bits<N> is_moved = is_live & ~state.is_checked;
  const Floats<N> step = select<N>(is_moved, (next - beta) * signed_cost, zero);
  state.betas()[i] = select<N>(is_moved, next, select<N>(is_shrunk, zero - 1.0F, beta));
  if (!any_nonzero<N>(step)) return;
  state.bias += step * bias;
  for (std::size_t k = first; k < last; ++k) weights[problem.column[k]] += problem.value[k] * step;
}

// Rows are visited in random order: prefetch them in case they do not fit in the cache.
template <std::size_t N>
MATCHSET_INLINE void prefetch_rows(const NodeProblem& problem, const SolverState<N>& state,
                                   std::span<const std::uint32_t> order, std::size_t at) {
  constexpr std::size_t kFar = 12, kNear = 6;
  if (at + kFar >= order.size()) return;
  __builtin_prefetch(&problem.begin[order[at + kFar]]);
  const std::size_t i = order[at + kNear], begin = problem.begin[i];
  __builtin_prefetch(state.betas() + i, 1);
  __builtin_prefetch(state.costs() + i);
  for (std::size_t k = begin; k < problem.begin[i + 1]; k += 16) {
    __builtin_prefetch(&problem.column[k]);
    __builtin_prefetch(&problem.value[k]);
  }
}

// A pass that moves a lane only estimates its gap. If the estimate is small enough, shrunk instances
// come back and the lane does not move for one pass, which computes the exact gap: the lane is done or
// goes on.
template <std::size_t N>
MATCHSET_INLINE void close_pass(std::size_t n_rows, SolverState<N>& state, const PassEnd<N>& end, float tol,
                                Floats<N>& limit) {
  for (std::size_t lane = 0; lane < N; ++lane) {
    if (!state.is_live[lane]) continue;
    const bool is_near = !(end.gap[lane] > tol * end.value[lane]), was_checked = state.is_checked[lane] != 0;
    limit[lane] = end.highest[lane] > 0 && !is_near && !was_checked ? end.highest[lane] : kInfinity;
    state.is_live[lane] = is_near && was_checked ? 0 : -1;
    state.is_checked[lane] = is_near && !was_checked ? -1 : 0;
    if (!state.is_checked[lane]) continue;
    for (std::size_t i = 0; i < n_rows; ++i)
      state.beta.data()[i * N + lane] = std::max(state.beta.data()[i * N + lane], 0.0F);
  }
}

template <std::size_t N>
MATCHSET_INLINE void coordinate_descent(const NodeProblem& problem, SolverState<N>& state, const SolverRule& rule) {
  std::vector<std::uint32_t> order(problem.n_rows());
  std::iota(order.begin(), order.end(), 0U);
  Draws draws(rule.seed);
  Floats<N> limit = Floats<N>{} + kInfinity;
  for (; state.n_iter < rule.max_iter && any<N>(state.is_live); ++state.n_iter) {
    draws.shuffle(std::span(order));
    PassEnd<N> end;
    for (std::size_t at = 0; at < order.size(); ++at) {
      prefetch_rows<N>(problem, state, order, at);
      visit<N>(problem, state, rule.bias, order[at], limit, end);
    }
    close_pass<N>(problem.n_rows(), state, end, rule.tol, limit);
  }
}

MATCHSET_CLONES void coordinate_descent_16(const NodeProblem& p, SolverState<16>& b, const SolverRule& r) {
  coordinate_descent<16>(p, b, r);
}
MATCHSET_CLONES void coordinate_descent_8(const NodeProblem& p, SolverState<8>& b, const SolverRule& r) {
  coordinate_descent<8>(p, b, r);
}
MATCHSET_CLONES void coordinate_descent_4(const NodeProblem& p, SolverState<4>& b, const SolverRule& r) {
  coordinate_descent<4>(p, b, r);
}

void coordinate_descent(const NodeProblem& p, SolverState<16>& b, const SolverRule& r) {
  coordinate_descent_16(p, b, r);
}
void coordinate_descent(const NodeProblem& p, SolverState<8>& b, const SolverRule& r) { coordinate_descent_8(p, b, r); }
void coordinate_descent(const NodeProblem& p, SolverState<4>& b, const SolverRule& r) { coordinate_descent_4(p, b, r); }

template <std::size_t N>
void initialize(const NodeProblem& problem, std::span<const Positives* const> labels, const SolverRule& rule,
                SolverState<N>& state) {
  std::fill_n(state.weight.data(), problem.n_columns * N, 0.0F);
  std::fill_n(state.beta.data(), problem.n_rows() * N, 0.0F);
  std::fill_n(state.cost.data(), problem.n_rows() * N, -2 * rule.negative_cost);
  for (std::size_t lane = 0; lane < labels.size(); ++lane) {
    const Positives& label = *labels[lane];
    state.is_live[lane] = -1;
    for (std::size_t p = 0; p < label.rows.size(); ++p) {
      const float weight = label.weights.empty() ? 1.0F : label.weights[p];
      state.cost.data()[label.rows[p] * N + lane] = 2 * rule.positive_cost * weight;
    }
  }
}

template <std::size_t N>
BatchSolution solve_lanes(const NodeProblem& problem, std::span<const Positives* const> labels,
                          const SolverRule& rule) {
  SolverState<N> state(problem);
  initialize<N>(problem, labels, rule, state);
  coordinate_descent(problem, state, rule);
  BatchSolution solution;
  solution.n_lanes = N;
  solution.weight.assign(state.weight.data(), state.weight.data() + problem.n_columns * N);
  solution.dual.resize(problem.n_rows() * N);
  for (std::size_t k = 0; k < solution.dual.size(); ++k)
    solution.dual[k] = std::max(state.beta.data()[k], 0.0F) * state.cost.data()[k];
  for (std::size_t lane = 0; lane < labels.size(); ++lane) {
    solution.bias.push_back(state.bias[lane] * rule.bias);
    solution.n_unfinished += state.is_live[lane] != 0;
  }
  return solution;
}

}  // namespace

BatchSolution solve_batch(const NodeProblem& problem, std::span<const Positives* const> labels,
                          const SolverRule& rule) {
  if (labels.size() <= 4) return solve_lanes<4>(problem, labels, rule);
  if (labels.size() <= 8) return solve_lanes<8>(problem, labels, rule);
  return solve_lanes<16>(problem, labels, rule);
}

}  // namespace matchset
