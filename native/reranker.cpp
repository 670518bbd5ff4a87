#include "reranker.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "newton.hpp"
#include "target_clones.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

constexpr double kLeastChance = 1e-9;  // less does not change the curvature
constexpr std::size_t kChunk = 64;     // queries that are summed together: the order of sums is fixed by it

void check(const CandidateSets& sets) {
  if (sets.n_features == 0 || sets.offsets.empty()) throw std::invalid_argument("there must be features and offsets");
  const auto n = sets.is_positive.size();
  if (sets.features.size() != n * sets.n_features)
    throw std::invalid_argument("features must be candidates x features");
  for (std::size_t q = 0; q < sets.n_queries(); ++q)
    if (sets.offsets[q] < 0 || sets.offsets[q + 1] < sets.offsets[q])
      throw std::invalid_argument("offsets must ascend");
  if (static_cast<std::uint64_t>(sets.offsets.back()) != n)
    throw std::invalid_argument("offsets must end at the last candidate");
}

// Four sums that do not wait for each other, always added in this order.
double dot(const float* x, const std::vector<double>& weights) {
  std::array<double, 4> sums{};
  for (std::size_t f = 0; f < weights.size(); ++f) sums[f % 4] += static_cast<double>(x[f]) * weights[f];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Adds weight * x x' to the lower triangle. Every entry is a sum of its own: any vector width gives the same.
MATCHSET_CLONES void add_square(const double* x, double weight, std::size_t n, double* hessian) {
  for (std::size_t i = 0; i < n; ++i) {
    if (x[i] == 0) continue;  // most are: half of the features are of the other kind of product
    const double scaled = weight * x[i];
    for (std::size_t j = 0; j <= i; ++j) hessian[i * n + j] += scaled * x[j];
  }
}

struct Query {
  const float* x;
  const std::uint8_t* is_positive;
  std::size_t size;
};

// Memory of one thread.
struct Scratch {
  std::vector<double> scores, mean, wide;
};

// One query's part of the loss.
void add_softmax(const Query& query, const std::vector<double>& weights, Scratch& scratch, Curvature& sum) {
  auto& [scores, mean, wide] = scratch;
  const std::size_t n = weights.size();
  const auto n_positive = std::count(query.is_positive, query.is_positive + query.size, std::uint8_t{1});
  if (n_positive == 0 || static_cast<std::size_t>(n_positive) == query.size) return;
  const double share = 1.0 / static_cast<double>(n_positive);
  scores.resize(query.size);
  for (std::size_t i = 0; i < query.size; ++i) scores[i] = dot(query.x + i * n, weights);
  const double best = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (const double score : scores) total += exp_fixed(score - best);
  const double log_total = best + log_fixed(total);
  mean.assign(n, 0.0);
  for (std::size_t i = 0; i < query.size; ++i) {
    const float* x = query.x + i * n;
    const double chance = exp_fixed(scores[i] - log_total), wanted = query.is_positive[i] ? share : 0.0;
    if (query.is_positive[i]) sum.loss -= share * (scores[i] - log_total);
    for (std::size_t f = 0; f < n; ++f) {
      sum.gradient[f] += (chance - wanted) * static_cast<double>(x[f]);
      mean[f] += chance * static_cast<double>(x[f]);
    }
    if (chance <= kLeastChance) continue;
    wide.assign(x, x + n);
    add_square(wide.data(), chance, n, sum.hessian.data());
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) sum.hessian[i * n + j] -= mean[i] * mean[j];
}

}  // namespace

std::vector<double> fit_softmax(const CandidateSets& sets, double ridge, unsigned n_threads) {
  check(sets);
  const auto n_terms = static_cast<double>(std::max<std::size_t>(1, sets.n_queries()));
  const std::size_t n_chunks = (sets.n_queries() + kChunk - 1) / kChunk;
  return minimize(std::vector<double>(sets.n_features), ridge, [&](const std::vector<double>& weights) {
    std::vector<Curvature> parts(n_chunks, Curvature(sets.n_features));
    parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
      thread_local Scratch scratch;
      const std::size_t end = std::min(sets.n_queries(), (chunk + 1) * kChunk);
      for (std::size_t q = chunk * kChunk; q < end; ++q) {
        const auto first = static_cast<std::size_t>(sets.offsets[q]);
        const Query query{sets.features.data() + first * sets.n_features, sets.is_positive.data() + first,
                          static_cast<std::size_t>(sets.offsets[q + 1]) - first};
        add_softmax(query, weights, scratch, parts[chunk]);
      }
    });
    Curvature sum(sets.n_features);
    for (const Curvature& part : parts) sum += part;
    sum.loss /= n_terms;
    for (double& value : sum.gradient) value /= n_terms;
    for (double& value : sum.hessian) value /= n_terms;
    return sum;
  });
}

}  // namespace matchset
