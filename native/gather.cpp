#include "gather.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace matchset {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// Largest relative difference after two float32 divisions by the same row length.
constexpr float kProportional = 1e-6F;

// Entries of the gathered rows by feature: instances ascend within each feature.
struct ByFeature {
  Buffer<std::size_t> begin;  // (n_features + 1,)
  Buffer<std::uint32_t> row;
  Buffer<float> value;

  std::size_t count(std::size_t f) const { return begin[f + 1] - begin[f]; }
};

// Local number of each feature of X, kNone between calls; one table per thread, which each call resets.
std::vector<std::uint32_t>& numbering(std::size_t n_features) {
  thread_local std::vector<std::uint32_t> table;
  if (table.size() < n_features) table.resize(n_features, kNone);
  return table;
}

// Finds the features that occur, ascending; returns the count of each.
std::vector<std::size_t> number_features(const CsrView& X, NodeProblem& problem, std::vector<std::uint32_t>& number) {
  problem.squared_length.reserve(problem.n_rows());
  std::vector<std::size_t> counts;
  std::vector<std::pair<std::int32_t, std::uint32_t>> found;  // feature, number by first appearance
  try {
    for (const std::int32_t i : problem.rows) {
      const SparseRow row = X[static_cast<std::size_t>(i)];
      float squares = 0;
      for (std::size_t k = 0; k < row.size(); ++k) {
        std::uint32_t& n = number[static_cast<std::size_t>(row.index[k])];
        if (n == kNone) {
          n = static_cast<std::uint32_t>(counts.size());
          found.emplace_back(row.index[k], n);
          counts.push_back(0);
        }
        ++counts[n];
        squares += row.value[k] * row.value[k];
      }
      problem.squared_length.push_back(squares);
    }
  } catch (...) {
    for (const auto& [feature, n] : found) number[static_cast<std::size_t>(feature)] = kNone;
    throw;
  }
  std::ranges::sort(found);
  std::vector<std::size_t> sorted_counts(found.size());
  for (std::size_t f = 0; f < found.size(); ++f) {
    problem.features.push_back(found[f].first);
    sorted_counts[f] = counts[found[f].second];
    number[static_cast<std::size_t>(found[f].first)] = static_cast<std::uint32_t>(f);
  }
  return sorted_counts;
}

ByFeature sort_by_feature(const CsrView& X, NodeProblem& problem) {
  auto& number = numbering(X.n_columns);
  const std::vector<std::size_t> counts = number_features(X, problem, number);
  ByFeature entries;
  entries.begin.resize(counts.size() + 1);
  std::inclusive_scan(counts.begin(), counts.end(), entries.begin.begin() + 1);
  entries.row.resize(entries.begin.back());
  entries.value.resize(entries.begin.back());
  std::vector<std::size_t> next(entries.begin.begin(), entries.begin.end() - 1);
  for (std::uint32_t i = 0; i < problem.n_rows(); ++i) {
    const SparseRow row = X.again(static_cast<std::size_t>(problem.rows[i]));
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::size_t at = next[number[static_cast<std::size_t>(row.index[k])]]++;
      entries.row[at] = i;
      entries.value[at] = row.value[k];
    }
  }
  for (const std::int32_t feature : problem.features) number[static_cast<std::size_t>(feature)] = kNone;
  return entries;
}

std::uint64_t hash_rows(const ByFeature& entries, std::size_t f) {
  std::uint64_t hash = entries.count(f);
  for (std::size_t k = entries.begin[f]; k < entries.begin[f + 1]; ++k)
    hash = (hash ^ (hash >> 29) ^ entries.row[k]) * 0x9E3779B97F4A7C15ULL;
  return hash;
}

bool are_proportional(const ByFeature& entries, std::size_t f, std::size_t g) {
  if (entries.count(f) != entries.count(g)) return false;
  const std::size_t a = entries.begin[f], b = entries.begin[g];
  for (std::size_t k = 0; k < entries.count(f); ++k) {
    if (entries.row[a + k] != entries.row[b + k]) return false;
    const float cross = entries.value[a + k] * entries.value[b], straight = entries.value[b + k] * entries.value[a];
    if (!(std::abs(cross - straight) <= kProportional * std::abs(cross))) return false;
  }
  return true;
}

// For each feature the first one that it is proportional to, which may be itself.
std::vector<std::uint32_t> find_leaders(const ByFeature& entries, std::size_t n_features) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> keys;
  std::vector<std::uint32_t> leaders(n_features);
  for (std::uint32_t f = 0; f < n_features; ++f) {
    leaders[f] = f;
    if (entries.count(f) > 1 && entries.value[entries.begin[f]] != 0) keys.emplace_back(hash_rows(entries, f), f);
  }
  std::ranges::sort(keys);
  for (std::size_t k = 1; k < keys.size(); ++k) {
    const std::uint32_t leader = leaders[keys[k - 1].second], f = keys[k].second;
    if (keys[k].first == keys[k - 1].first && are_proportional(entries, f, leader)) leaders[f] = leader;
  }
  return leaders;
}

// Numbers the columns, frequent ones first, and sets column and scale of each feature.
std::vector<std::uint32_t> number_columns(const ByFeature& entries, NodeProblem& problem, std::vector<float>& length) {
  const std::size_t n_features = problem.features.size();
  std::vector<std::uint32_t> leaders = find_leaders(entries, n_features);
  std::vector<std::uint32_t> chosen;
  problem.scale.resize(n_features);
  length.assign(n_features, 0);
  for (std::uint32_t f = 0; f < n_features; ++f) {
    if (entries.count(f) == 1) continue;
    const std::uint32_t leader = leaders[f];
    if (leader == f) chosen.push_back(f);
    problem.scale[f] = leader == f ? 1.0F : entries.value[entries.begin[f]] / entries.value[entries.begin[leader]];
    length[leader] += problem.scale[f] * problem.scale[f];
  }
  std::ranges::stable_sort(chosen, std::greater{}, [&](std::uint32_t f) { return entries.count(f); });
  problem.n_columns = static_cast<std::uint32_t>(chosen.size());
  problem.column_of.resize(n_features);
  for (std::uint32_t column = 0; column < chosen.size(); ++column) {
    problem.column_of[chosen[column]] = column;
    length[chosen[column]] = std::sqrt(length[chosen[column]]);
  }
  for (std::uint32_t f = 0; f < n_features; ++f) {
    if (entries.count(f) == 1) continue;
    problem.column_of[f] = problem.column_of[leaders[f]];
    problem.scale[f] /= length[leaders[f]];
  }
  return chosen;
}

void take_own(const ByFeature& entries, NodeProblem& problem) {
  problem.own.assign(problem.n_rows(), 0);
  for (std::size_t f = 0; f < problem.features.size(); ++f) {
    if (entries.count(f) != 1) continue;
    const std::uint32_t row = entries.row[entries.begin[f]];
    const float value = entries.value[entries.begin[f]];
    problem.column_of[f] = problem.n_columns + row;
    problem.scale[f] = value;
    problem.own[row] += value * value;
  }
}

}  // namespace

NodeProblem gather(const CsrView& X, std::span<const std::int32_t> rows) {
  NodeProblem problem;
  problem.rows.assign(rows.begin(), rows.end());
  const ByFeature entries = sort_by_feature(X, problem);
  std::vector<float> length;
  const std::vector<std::uint32_t> chosen = number_columns(entries, problem, length);
  take_own(entries, problem);

  problem.begin.assign(problem.n_rows() + 1, 0);
  for (const std::uint32_t f : chosen)
    for (std::size_t k = entries.begin[f]; k < entries.begin[f + 1]; ++k) ++problem.begin[entries.row[k] + 1];
  std::partial_sum(problem.begin.begin(), problem.begin.end(), problem.begin.begin());
  problem.column.resize(problem.begin.back());
  problem.value.resize(problem.begin.back());
  std::vector<std::size_t> next(problem.begin.begin(), problem.begin.end() - 1);
  for (std::uint32_t column = 0; column < chosen.size(); ++column) {
    const std::uint32_t f = chosen[column];
    for (std::size_t k = entries.begin[f]; k < entries.begin[f + 1]; ++k) {
      const std::size_t at = next[entries.row[k]]++;
      problem.column[at] = column;
      problem.value[at] = entries.value[k] * length[f];
    }
  }
  return problem;
}

}  // namespace matchset
