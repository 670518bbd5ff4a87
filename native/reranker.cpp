#include "reranker.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "threads.hpp"

namespace matchset {
namespace {

constexpr double kLeastChance = 1e-7;  // less changes nothing
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
  if (sets.shares.size() != sets.n_queries()) throw std::invalid_argument("each query must have a share");
  for (const double share : sets.shares)
    if (!(share >= 0)) throw std::invalid_argument("shares must be at least 0; got " + std::to_string(share));
  if (sets.kinds.size() != n) throw std::invalid_argument("each candidate must have a kind");
  for (const std::uint8_t kind : sets.kinds)
    if (kind > sets.n_kinds) throw std::invalid_argument("kinds must be at most " + std::to_string(sets.n_kinds));
}

// Adds one query's part of the loss after another.
class QueryLoss {
 public:
  QueryLoss(const CandidateSets& sets, const std::vector<double>& weights) : sets_(sets), weights_(weights) {}

  void add(std::size_t query, Curvature& sum) {
    const double share = sets_.shares[query];
    std::size_t n_positive = 0;
    rows_.clear();
    for (auto i = sets_.offsets[query]; i < sets_.offsets[query + 1]; ++i)
      if (const auto row = static_cast<std::size_t>(i); sets_.kinds[row] < sets_.n_kinds) {
        rows_.push_back(row);
        n_positive += sets_.is_positive[row];
      }
    const std::size_t size = rows_.size();
    if (n_positive == 0 || n_positive == size || share == 0) return;
    scores_.resize(size);
    for (std::size_t i = 0; i < size; ++i) scores_[i] = score(i);
    const double best = *std::max_element(scores_.begin(), scores_.end());
    chances_.resize(size);
    double total = 0;
    for (std::size_t i = 0; i < size; ++i) total += chances_[i] = exp_fixed(scores_[i] - best);
    const double log_total = best + log_fixed(total), each = 1 / static_cast<double>(n_positive);
    mean_.assign(weights_.size(), 0.0);
    std::size_t first = weights_.size(), last = 0;  // weights that this query has something to do with
    for (std::size_t i = 0; i < size; ++i) {
      const bool is_positive = sets_.is_positive[rows_[i]] != 0;
      if (is_positive) sum.loss -= share * each * (scores_[i] - log_total);
      const double chance = chances_[i] / total;
      if (chance > kLeastChance || is_positive) add_candidate(i, share * chance, is_positive ? share * each : 0.0, sum);
      first = std::min(first, first_weight(i)), last = std::max(last, first_weight(i) + sets_.n_features);
    }
    const std::size_t n = weights_.size();
    for (std::size_t i = first; i < last; ++i)
      for (std::size_t j = first; j <= i; ++j) sum.hessian[i * n + j] -= mean_[i] * mean_[j] / share;
  }

 private:
  const float* row(std::size_t i) const { return sets_.features.data() + rows_[i] * sets_.n_features; }
  std::size_t first_weight(std::size_t i) const { return sets_.kinds[rows_[i]] * sets_.n_features; }

  double score(std::size_t i) const {
    const float* x = row(i);
    const double* weights = weights_.data() + first_weight(i);
    double sum = 0;
    for (std::size_t f = 0; f < sets_.n_features; ++f) sum += static_cast<double>(x[f]) * weights[f];
    return sum;
  }

  void add_candidate(std::size_t i, double chance, double wanted, Curvature& sum) {
    const float* x = row(i);
    const std::size_t first = first_weight(i), n = weights_.size();
    for (std::size_t f = 0; f < sets_.n_features; ++f) {
      const auto value = static_cast<double>(x[f]);
      if (value == 0) continue;
      sum.gradient[first + f] += (chance - wanted) * value;
      mean_[first + f] += chance * value;
      double* hessian = sum.hessian.data() + (first + f) * n + first;
      for (std::size_t g = 0; g <= f; ++g) hessian[g] += chance * value * static_cast<double>(x[g]);
    }
  }

  const CandidateSets& sets_;
  const std::vector<double>& weights_;
  std::vector<std::size_t> rows_;  // candidates that are not left out
  std::vector<double> scores_, chances_, mean_;
};

}  // namespace

std::vector<double> fit_softmax(const CandidateSets& sets, const Prior& prior, unsigned n_threads) {
  check(sets);
  const std::size_t n = sets.n_weights();
  if (prior.center.size() != n || prior.precision.size() != n * n)
    throw std::invalid_argument("the prior must have a center of each weight and a precision of each pair");
  const std::size_t n_chunks = (sets.n_queries() + kChunk - 1) / kChunk;
  return minimize(prior, [&](const std::vector<double>& weights) {
    std::vector<Curvature> parts(n_chunks, Curvature(weights.size()));
    parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
      QueryLoss loss(sets, weights);
      const std::size_t end = std::min(sets.n_queries(), (chunk + 1) * kChunk);
      for (std::size_t q = chunk * kChunk; q < end; ++q) loss.add(q, parts[chunk]);
    });
    Curvature sum(weights.size());
    for (const Curvature& part : parts) sum += part;
    return sum;
  });
}

}  // namespace matchset
