#include "reranker.hpp"

#include <algorithm>
#include <stdexcept>

#include "newton.hpp"
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

double dot(const float* x, const std::vector<double>& weights) {
  double sum = 0;
  for (std::size_t f = 0; f < weights.size(); ++f) sum += static_cast<double>(x[f]) * weights[f];
  return sum;
}

// Adds weight * x x' to the lower triangle.
void add_square(const float* x, double weight, Curvature& sum) {
  const std::size_t n = sum.gradient.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (x[i] == 0) continue;  // most are: half of the features are of the other kind of product
    const double scaled = weight * static_cast<double>(x[i]);
    for (std::size_t j = 0; j <= i; ++j) sum.hessian[i * n + j] += scaled * static_cast<double>(x[j]);
  }
}

struct Query {
  const float* x;
  const std::uint8_t* is_positive;
  std::size_t size;
};

// One query's part of the loss; `scores` and `mean` are scratch memory.
void add_softmax(const Query& query, const std::vector<double>& weights, std::vector<double>& scores,
                 std::vector<double>& mean, Curvature& sum) {
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
    if (chance > kLeastChance) add_square(x, chance, sum);
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) sum.hessian[i * n + j] -= mean[i] * mean[j];
}

void add_logistic(const Query& query, const std::vector<double>& weights, Curvature& sum) {
  const std::size_t n = weights.size();
  for (std::size_t i = 0; i < query.size; ++i) {
    const float* x = query.x + i * n;
    const double margin = dot(x, weights), chance = 1 / (1 + exp_fixed(-margin));
    const double signed_margin = query.is_positive[i] ? margin : -margin;
    // log(1 + e^-m) without overflow.
    sum.loss += signed_margin > 0 ? log_fixed(1 + exp_fixed(-signed_margin))
                                  : log_fixed(1 + exp_fixed(signed_margin)) - signed_margin;
    for (std::size_t f = 0; f < n; ++f)
      sum.gradient[f] += (chance - (query.is_positive[i] ? 1.0 : 0.0)) * static_cast<double>(x[f]);
    add_square(x, chance * (1 - chance), sum);
  }
}

template <typename AddQuery>
std::vector<double> fit(const CandidateSets& sets, double ridge, double n_terms, unsigned n_threads,
                        const AddQuery& add) {
  check(sets);
  const std::size_t n_chunks = (sets.n_queries() + kChunk - 1) / kChunk;
  return minimize(std::vector<double>(sets.n_features), ridge, [&](const std::vector<double>& weights) {
    std::vector<Curvature> parts(n_chunks, Curvature(sets.n_features));
    parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
      const std::size_t end = std::min(sets.n_queries(), (chunk + 1) * kChunk);
      for (std::size_t q = chunk * kChunk; q < end; ++q) {
        const auto first = static_cast<std::size_t>(sets.offsets[q]);
        const Query query{sets.features.data() + first * sets.n_features, sets.is_positive.data() + first,
                          static_cast<std::size_t>(sets.offsets[q + 1]) - first};
        add(query, weights, parts[chunk]);
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

}  // namespace

std::vector<double> fit_softmax(const CandidateSets& sets, double ridge, unsigned n_threads) {
  const auto n = static_cast<double>(std::max<std::size_t>(1, sets.n_queries()));
  return fit(sets, ridge, n, n_threads, [](const Query& query, const std::vector<double>& weights, Curvature& sum) {
    thread_local std::vector<double> scores, mean;
    add_softmax(query, weights, scores, mean, sum);
  });
}

std::vector<double> fit_logistic(const CandidateSets& sets, double ridge, unsigned n_threads) {
  const auto n = static_cast<double>(std::max<std::size_t>(1, sets.is_positive.size()));
  return fit(sets, ridge, n, n_threads, [](const Query& query, const std::vector<double>& weights, Curvature& sum) {
    add_logistic(query, weights, sum);
  });
}

}  // namespace matchset
