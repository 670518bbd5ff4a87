#include "gather.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// Largest relative difference after two float32 divisions by the same row length.
constexpr float kProportional = 1e-6F;

// Entries of the gathered rows by feature: instances ascend within each feature. Threads share the rows, in blocks.
struct ByFeature {
  Buffer<std::size_t> begin;                   // (n_features + 1,)
  std::vector<std::vector<std::size_t>> ends;  // of the entries of each block, (n_blocks, n_features)
  RawBuffer<std::uint32_t> row;
  RawBuffer<float> value;

  std::size_t n_blocks() const { return ends.size(); }
  std::size_t count(std::size_t f) const { return begin[f + 1] - begin[f]; }
  std::size_t begin_of(std::size_t f, std::size_t block) const { return block == 0 ? begin[f] : ends[block - 1][f]; }
};

// Local number of each feature of X, kNone between calls; one table per thread, which each call resets.
std::vector<std::uint32_t>& numbering(std::size_t n_features) {
  thread_local std::vector<std::uint32_t> table;
  if (table.size() < n_features) table.resize(n_features, kNone);
  return table;
}

// Calls visit(i, row of X) for a block of the gathered rows.
template <typename Visit>
void for_block(const NodeProblem& problem, std::size_t block, std::size_t n_blocks, Visit&& visit) {
  const std::size_t n = problem.n_rows(), end = n * (block + 1) / n_blocks;
  for (std::size_t i = n * block / n_blocks; i < end; ++i) visit(i, static_cast<std::size_t>(problem.rows[i]));
}

float squared_length(const SparseRow& row) {
  float squares = 0;
  for (const float value : row.value) squares += value * value;
  return squares;
}

// Finds the features that occur, ascending; returns the count of each.
std::vector<std::size_t> number_features(const CsrView& X, NodeProblem& problem, std::vector<std::uint32_t>& number) {
  std::vector<std::size_t> counts;
  std::vector<std::pair<std::int32_t, std::uint32_t>> found;  // feature, number by first appearance
  for_block(problem, 0, 1, [&](std::size_t i, std::size_t x) {
    const SparseRow row = X[x];
    for (const std::int32_t feature : row.index) {
      std::uint32_t& n = number[static_cast<std::size_t>(feature)];
      if (n == kNone) {
        n = static_cast<std::uint32_t>(counts.size());
        found.emplace_back(feature, n);
        counts.push_back(0);
      }
      ++counts[n];
    }
    problem.squared_length[i] = squared_length(row);
  });
  std::ranges::sort(found);
  std::vector<std::size_t> sorted_counts(found.size());
  for (std::size_t f = 0; f < found.size(); ++f) {
    problem.features.push_back(found[f].first);
    sorted_counts[f] = counts[found[f].second];
    number[static_cast<std::size_t>(found[f].first)] = static_cast<std::uint32_t>(f);
  }
  return sorted_counts;
}

// The same for many rows, which have most features of X: counts in each block.
std::vector<std::vector<std::size_t>> number_in_blocks(const CsrView& X, NodeProblem& problem,
                                                       std::vector<std::uint32_t>& number, unsigned n_blocks) {
  std::vector<std::vector<std::size_t>> counts(n_blocks);
  parallel_for(n_blocks, n_blocks, [&](std::size_t block) {
    counts[block].assign(X.n_columns, 0);
    for_block(problem, block, n_blocks, [&](std::size_t i, std::size_t x) {
      const SparseRow row = X[x];
      for (const std::int32_t feature : row.index) ++counts[block][static_cast<std::size_t>(feature)];
      problem.squared_length[i] = squared_length(row);
    });
  });
  for (std::size_t f = 0; f < X.n_columns; ++f) {
    if (std::ranges::none_of(counts, [&](const auto& own) { return own[f] > 0; })) continue;
    const std::size_t n = problem.features.size();  // at most f
    for (auto& own : counts) own[n] = own[f];
    number[f] = static_cast<std::uint32_t>(n);
    problem.features.push_back(static_cast<std::int32_t>(f));
  }
  for (auto& own : counts) own.resize(problem.features.size());
  return counts;
}

ByFeature sort_entries(const CsrView& X, NodeProblem& problem, std::vector<std::uint32_t>& number, unsigned n_threads) {
  problem.squared_length.resize(problem.n_rows());
  ByFeature entries;
  if (n_threads > 1)
    entries.ends = number_in_blocks(X, problem, number, n_threads);
  else
    entries.ends.push_back(number_features(X, problem, number));
  const std::size_t n_features = problem.features.size(), n_blocks = entries.n_blocks();
  entries.begin.resize(n_features + 1);
  std::size_t at = 0;
  for (std::size_t f = 0; f < n_features; ++f) {
    for (auto& ends : entries.ends) at += std::exchange(ends[f], at);  // from here on, the next entry
    entries.begin[f + 1] = at;
  }
  entries.row.resize(at);
  entries.value.resize(at);
  parallel_for(n_blocks, n_threads, [&](std::size_t block) {
    for_block(problem, block, n_blocks, [&](std::size_t i, std::size_t x) {
      const SparseRow row = X.again(x);
      for (std::size_t k = 0; k < row.size(); ++k) {
        const std::size_t to = entries.ends[block][number[static_cast<std::size_t>(row.index[k])]]++;
        entries.row[to] = static_cast<std::uint32_t>(i);
        entries.value[to] = row.value[k];
      }
    });
  });
  for (const std::int32_t feature : problem.features) number[static_cast<std::size_t>(feature)] = kNone;
  return entries;
}

ByFeature sort_by_feature(const CsrView& X, NodeProblem& problem, unsigned n_threads) {
  auto& number = numbering(X.n_columns);
  try {
    return sort_entries(X, problem, number, n_threads);
  } catch (...) {  // a bad row, or no memory
    std::ranges::fill(number, kNone);
    throw;
  }
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
std::vector<std::uint32_t> find_leaders(const ByFeature& entries, std::size_t n_features, unsigned n_threads) {
  constexpr std::size_t kChunk = 4096;
  std::vector<std::uint64_t> hashes(n_features);
  std::vector<std::uint32_t> leaders(n_features);
  const auto can_follow = [&](std::size_t f) { return entries.count(f) > 1 && entries.value[entries.begin[f]] != 0; };
  parallel_for((n_features + kChunk - 1) / kChunk, n_threads, [&](std::size_t chunk) {
    for (std::size_t f = chunk * kChunk; f < std::min(n_features, (chunk + 1) * kChunk); ++f)
      if (can_follow(f)) hashes[f] = hash_rows(entries, f);
  });
  std::vector<std::pair<std::uint64_t, std::uint32_t>> keys;
  for (std::uint32_t f = 0; f < n_features; ++f) {
    leaders[f] = f;
    if (can_follow(f)) keys.emplace_back(hashes[f], f);
  }
  std::ranges::sort(keys);
  // Features of one hash are looked at in turn.
  const auto begins = [&](std::size_t k) { return k == 0 || keys[k].first != keys[k - 1].first; };
  parallel_for((keys.size() + kChunk - 1) / kChunk, n_threads, [&](std::size_t chunk) {
    std::size_t k = chunk * kChunk;
    while (k < keys.size() && !begins(k)) ++k;
    for (; k < keys.size() && (k < (chunk + 1) * kChunk || !begins(k)); ++k) {
      if (begins(k)) continue;
      const std::uint32_t leader = leaders[keys[k - 1].second], f = keys[k].second;
      if (are_proportional(entries, f, leader)) leaders[f] = leader;
    }
  });
  return leaders;
}

// Numbers the columns, frequent ones first, and sets column and scale of each feature.
std::vector<std::uint32_t> number_columns(const ByFeature& entries, NodeProblem& problem, std::vector<float>& length,
                                          unsigned n_threads) {
  const std::size_t n_features = problem.features.size();
  const std::vector<std::uint32_t> leaders = find_leaders(entries, n_features, n_threads);
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

NodeProblem gather(const CsrView& X, std::span<const std::int32_t> rows, unsigned n_threads) {
  NodeProblem problem;
  problem.rows.assign(rows.begin(), rows.end());
  const ByFeature entries = sort_by_feature(X, problem, n_threads);
  std::vector<float> length;
  const std::vector<std::uint32_t> chosen = number_columns(entries, problem, length, n_threads);
  take_own(entries, problem);

  // Every block has rows of its own.
  const auto for_entries = [&](auto&& visit) {
    parallel_for(entries.n_blocks(), n_threads, [&](std::size_t block) {
      for (std::uint32_t column = 0; column < chosen.size(); ++column) {
        const std::uint32_t f = chosen[column];
        for (std::size_t k = entries.begin_of(f, block); k < entries.ends[block][f]; ++k) visit(column, k);
      }
    });
  };
  problem.begin.assign(problem.n_rows() + 1, 0);
  for_entries([&](std::uint32_t, std::size_t k) { ++problem.begin[entries.row[k] + 1]; });
  std::partial_sum(problem.begin.begin(), problem.begin.end(), problem.begin.begin());
  problem.column.resize(problem.begin.back());
  problem.value.resize(problem.begin.back());
  std::vector<std::size_t> next(problem.begin.begin(), problem.begin.end() - 1);
  for_entries([&](std::uint32_t column, std::size_t k) {
    const std::size_t at = next[entries.row[k]]++;
    problem.column[at] = column;
    problem.value[at] = entries.value[k] * length[chosen[column]];
  });
  return problem;
}

}  // namespace matchset
