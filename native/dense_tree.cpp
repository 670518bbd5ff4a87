#include "dense_tree.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "dense.hpp"
#include "rng.hpp"
#include "target_clones.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

// Vectors still to be cut into `n_parts` children of a node at `level`: a range of the order.
struct DenseRange {
  std::size_t begin = 0, end = 0, level = 0;
  std::uint32_t n_parts = 1;

  std::size_t size() const { return end - begin; }
};

MATCHSET_CLONES void add_scaled(const std::int8_t* row, float scale, std::size_t d, float* sum) {
  for (std::size_t k = 0; k < d; ++k) sum[k] += scale * static_cast<float>(row[k]);
}

MATCHSET_CLONES float dot_with_bytes(const std::int8_t* row, const float* center, std::size_t d) {
  float lanes[kLanes] = {};
  for (std::size_t k = 0; k < d; k += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += static_cast<float>(row[k + j]) * center[k + j];
  return add_lanes<kLanes>(load(lanes));
}

// The vectors of one range.
struct DenseRows {
  const ByteVectors& vectors;
  std::span<const std::int32_t> ids;
  std::size_t n_features = vectors.dimensions;

  std::size_t size() const { return ids.size(); }

  void add(std::vector<float>& sum, std::size_t i, float sign, FeatureRange range) const {
    const auto row = static_cast<std::size_t>(ids[i]);
    add_scaled(vectors.row(row) + range.begin, sign * vectors.scales[row], range.end - range.begin,
               sum.data() + range.begin);
  }

  // Up to n ranges of whole cache lines.
  std::vector<FeatureRange> cut_features(std::size_t n) const {
    constexpr std::size_t kLine = 64;
    const std::size_t n_lines = (n_features + kLine - 1) / kLine, n_ranges = std::clamp<std::size_t>(n, 1, n_lines);
    std::vector<FeatureRange> ranges;
    for (std::size_t i = 0; i < n_ranges; ++i)
      ranges.push_back({i * n_lines / n_ranges * kLine, std::min(n_features, (i + 1) * n_lines / n_ranges * kLine)});
    return ranges;
  }

  void score(const float* center, std::size_t begin, std::size_t end, float* scores) const {
    for (std::size_t i = begin; i < end; ++i) {
      const auto row = static_cast<std::size_t>(ids[i]);
      if (i + 4 < ids.size()) __builtin_prefetch(vectors.row(static_cast<std::size_t>(ids[i + 4])));
      scores[i] = dot_with_bytes(vectors.row(row), center, n_features) * vectors.scales[row];
    }
  }
};

// Cuts a range of the order in two, its vectors in place.
std::pair<DenseRange, DenseRange> cut(const ByteVectors& vectors, std::span<std::int32_t> order,
                                      const DenseRange& range, const TreePlan& plan, unsigned n_threads) {
  const std::size_t n = range.size(), n_parts = range.n_parts, left_parts = n_parts / 2;
  const std::size_t n_left = size_of_left(n, n_parts);
  const std::span<std::int32_t> rows = order.subspan(range.begin, n);
  const DenseRows cut_rows{vectors, rows};
  TwoMeans two_means(cut_rows, n_left, n_threads);
  const auto is_right = two_means.run(plan.max_iter, Draws(plan.seed, range.begin << 32 | n));
  std::vector<std::int32_t> moved(n);
  std::size_t next[2] = {0, n_left};
  for (std::size_t i = 0; i < n; ++i) moved[next[is_right[i]]++] = rows[i];
  std::ranges::copy(moved, rows.begin());
  const std::size_t middle = range.begin + n_left;
  DenseRange left{range.begin, middle, range.level, static_cast<std::uint32_t>(left_parts)};
  DenseRange right{middle, range.end, range.level, static_cast<std::uint32_t>(n_parts - left_parts)};
  plan.settle(left);
  plan.settle(right);
  return {left, right};
}

}  // namespace

std::vector<std::int32_t> order_vectors(const ByteVectors& vectors, const TreePlan& plan, unsigned n_threads) {
  std::vector<std::int32_t> order(vectors.size());
  std::iota(order.begin(), order.end(), 0);
  DenseRange whole{0, order.size(), 0, plan.parts_at(0, order.size())};
  plan.settle(whole);
  std::vector<DenseRange> ranges{whole};
  const auto is_leaf = [](const DenseRange& range) { return range.n_parts <= 1; };
  std::erase_if(ranges, is_leaf);
  // Few ranges: threads share the work inside each. Many: a range per thread.
  while (!ranges.empty() && ranges.size() < n_threads) {
    std::vector<DenseRange> halves(2 * ranges.size());
    const auto n_each = static_cast<unsigned>((n_threads + ranges.size() - 1) / ranges.size());
    parallel_for(ranges.size(), n_threads, [&](std::size_t i) {
      std::tie(halves[2 * i], halves[2 * i + 1]) = cut(vectors, order, ranges[i], plan, n_each);
    });
    std::erase_if(halves, is_leaf);
    ranges = std::move(halves);
  }
  parallel_unfold(std::move(ranges), n_threads, [&](const DenseRange& range) {
    const auto [left, right] = cut(vectors, order, range, plan, 1);
    std::vector<DenseRange> halves{left, right};
    std::erase_if(halves, is_leaf);
    return halves;
  });
  return order;
}

std::vector<float> mean_vectors(const ByteVectors& vectors, std::span<const std::int64_t> offsets, unsigned n_threads) {
  const std::size_t d = vectors.dimensions, n_ranges = offsets.empty() ? 0 : offsets.size() - 1;
  std::vector<float> means(n_ranges * d);
  parallel_for(n_ranges, n_threads, [&](std::size_t range) {
    const std::int64_t begin = offsets[range], end = offsets[range + 1];
    if (begin < 0 || end < begin || static_cast<std::size_t>(end) > vectors.size())
      throw std::invalid_argument("offsets must ascend and end inside the vectors; got " + std::to_string(begin) +
                                  " and " + std::to_string(end));
    std::vector<float> sum(d);
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      add_scaled(vectors.row(i), vectors.scales[i], d, sum.data());
    const float scale = inverse_length(sum);
    for (std::size_t k = 0; k < d; ++k) means[range * d + k] = sum[k] * scale;
  });
  return means;
}

}  // namespace matchset
