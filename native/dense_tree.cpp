#include "dense_tree.hpp"

#include <algorithm>
#include <cmath>
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

MATCHSET_CLONES float dot_with_bytes(const std::int8_t* row, const float* centre, std::size_t d) {
  float lanes[kLanes] = {};
  for (std::size_t k = 0; k < d; k += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += static_cast<float>(row[k + j]) * centre[k + j];
  return add_lanes<kLanes>(load(lanes));
}

float inverse_length(const std::vector<float>& sum) {
  double squares = 0;
  for (const float x : sum) squares += double{x} * double{x};
  return squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0.0F;
}

// Balanced spherical 2-means over the vectors of one range.
class DenseTwoMeans {
 public:
  DenseTwoMeans(const ByteVectors& vectors, std::span<const std::int32_t> rows, std::size_t n_left, unsigned n_threads)
      : vectors_(vectors), rows_(rows), n_left_(n_left), n_threads_(n_threads), centre_(vectors.dimensions),
        left_(vectors.dimensions), right_(vectors.dimensions), is_right_(rows.size()), scores_(rows.size()) {}

  // Which vectors go to the right, after at most `max_passes` moves of the two centres.
  std::vector<std::uint8_t> run(int max_passes, Draws draws) {
    const auto n = static_cast<std::uint32_t>(rows_.size());
    const std::uint32_t first = draws.below(n);
    std::uint32_t second = draws.below(n - 1);
    if (second >= first) ++second;
    add(centre_, second, 1.0F);
    add(centre_, first, -1.0F);
    assign();
    for (std::size_t i = 0; i < rows_.size(); ++i) add(is_right_[i] ? right_ : left_, i, 1.0F);
    for (int pass = 1; pass < max_passes; ++pass) {
      const float to_left = inverse_length(left_), to_right = inverse_length(right_);
      for (std::size_t k = 0; k < centre_.size(); ++k) centre_[k] = right_[k] * to_right - left_[k] * to_left;
      if (!assign()) break;
    }
    return std::move(is_right_);
  }

 private:
  void add(std::vector<float>& sum, std::size_t i, float sign) const {
    const auto row = static_cast<std::size_t>(rows_[i]);
    add_scaled(vectors_.row(row), sign * vectors_.scales[row], vectors_.dimensions, sum.data());
  }

  // The n_left vectors with the lowest (score, position) go left; true if any changed sides.
  bool assign() {
    constexpr std::size_t kChunk = 4096;
    const std::size_t n = rows_.size();
    parallel_for((n + kChunk - 1) / kChunk, n_threads_, [&](std::size_t chunk) {
      for (std::size_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
        const auto row = static_cast<std::size_t>(rows_[i]);
        if (i + 4 < n) __builtin_prefetch(vectors_.row(static_cast<std::size_t>(rows_[i + 4])));
        const float score = dot_with_bytes(vectors_.row(row), centre_.data(), centre_.size()) * vectors_.scales[row];
        scores_[i] = std::isfinite(score) ? score : 0.0F;  // NaN has no place in an order
      }
    });
    sorted_ = scores_;
    const auto at_cut = sorted_.begin() + static_cast<std::ptrdiff_t>(n_left_);
    std::nth_element(sorted_.begin(), at_cut, sorted_.end());
    const float cut = *at_cut;
    return move_to_sides(cut, std::count(sorted_.begin(), at_cut, cut));
  }

  // Vectors below the cut go left, and so do the first `n_ties` at it.
  bool move_to_sides(float cut, std::ptrdiff_t n_ties) {
    bool has_changed = false;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::uint8_t side = scores_[i] > cut || (scores_[i] == cut && n_ties-- <= 0);
      if (side == is_right_[i]) continue;
      has_changed = true;
      is_right_[i] = side;
      if (!has_sums_) continue;
      add(side ? right_ : left_, i, 1.0F);
      add(side ? left_ : right_, i, -1.0F);
    }
    has_sums_ = true;
    return has_changed;
  }

  const ByteVectors& vectors_;
  const std::span<const std::int32_t> rows_;
  const std::size_t n_left_;
  const unsigned n_threads_;
  std::vector<float> centre_, left_, right_;
  std::vector<std::uint8_t> is_right_;
  std::vector<float> scores_, sorted_;
  bool has_sums_ = false;  // the first assignment is random: its sums are taken after it
};

std::uint32_t parts_at(const DensePlan& plan, std::size_t level, std::size_t n) {
  if (level >= plan.splits.size()) return 1;
  return static_cast<std::uint32_t>(std::min<std::size_t>(static_cast<std::size_t>(plan.splits[level]), n));
}

// Goes down while nothing is left to cut at this level.
DenseRange settled(DenseRange range, const DensePlan& plan) {
  while (range.n_parts <= 1 && range.level < plan.splits.size())
    range.n_parts = parts_at(plan, ++range.level, range.size());
  return range;
}

// Cuts a range of the order in two, its vectors in place.
std::pair<DenseRange, DenseRange> cut(const ByteVectors& vectors, std::span<std::int32_t> order,
                                      const DenseRange& range, const DensePlan& plan, unsigned n_threads) {
  const std::size_t n = range.size(), n_parts = range.n_parts, left_parts = n_parts / 2;
  const std::size_t n_left = left_parts * (n / n_parts) + std::min(left_parts, n % n_parts);
  const std::span<std::int32_t> rows = order.subspan(range.begin, n);
  DenseTwoMeans two_means(vectors, rows, n_left, n_threads);
  const auto is_right = two_means.run(plan.max_passes, Draws(plan.seed, range.begin << 32 | n));
  std::vector<std::int32_t> moved(n);
  std::size_t next[2] = {0, n_left};
  for (std::size_t i = 0; i < n; ++i) moved[next[is_right[i]]++] = rows[i];
  std::ranges::copy(moved, rows.begin());
  const std::size_t middle = range.begin + n_left;
  return {settled({range.begin, middle, range.level, static_cast<std::uint32_t>(left_parts)}, plan),
          settled({middle, range.end, range.level, static_cast<std::uint32_t>(n_parts - left_parts)}, plan)};
}

}  // namespace

std::vector<std::int32_t> order_vectors(const ByteVectors& vectors, const DensePlan& plan, unsigned n_threads) {
  std::vector<std::int32_t> order(vectors.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<DenseRange> ranges{settled({0, order.size(), 0, parts_at(plan, 0, order.size())}, plan)};
  std::erase_if(ranges, [](const DenseRange& range) { return range.n_parts <= 1; });
  while (!ranges.empty()) {
    std::vector<DenseRange> halves(2 * ranges.size());
    // Few ranges: threads share the work inside each. Many: a range per thread.
    const bool is_wide = ranges.size() < n_threads;
    parallel_for(ranges.size(), is_wide ? 1 : n_threads, [&](std::size_t i) {
      std::tie(halves[2 * i], halves[2 * i + 1]) = cut(vectors, order, ranges[i], plan, is_wide ? n_threads : 1);
    });
    std::erase_if(halves, [](const DenseRange& half) { return half.n_parts <= 1; });
    ranges = std::move(halves);
  }
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
