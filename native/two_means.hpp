// Two-means: how is a node cut in two halves of given sizes?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rng.hpp"
#include "threads.hpp"

namespace matchset {

struct TreePlan {
  std::span<const std::int32_t> splits;  // children of each node, per level from the root
  int max_iter;                          // of 2-means per cut
  std::uint64_t seed;

  // Even parts that a node of `n` rows is split into.
  std::uint32_t parts_at(std::size_t level, std::size_t n) const {
    if (level >= splits.size()) return 1;
    return static_cast<std::uint32_t>(std::min<std::size_t>(static_cast<std::size_t>(splits[level]), n));
  }

  // Moves a range on to the next level while there is nothing to cut at this one.
  template <typename Range>
  void settle(Range& range) const {
    while (range.n_parts <= 1 && range.level < splits.size()) range.n_parts = parts_at(++range.level, range.size());
  }
};

// Rows that go left when `n` rows are cut in two, the first `n_parts / 2` parts on the left.
inline std::size_t size_of_left(std::size_t n, std::size_t n_parts) {
  return n_parts / 2 * (n / n_parts) + std::min(n_parts / 2, n % n_parts);
}

inline float inverse_length(const std::vector<float>& sum) {
  double squares = 0;
  for (const float x : sum) squares += double{x} * double{x};
  return squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0.0F;
}

// Balanced spherical 2-means over rows of length one, which have `size()`, `n_features`,
// `add(sum, i, sign)` and `score(center, begin, end, scores)`.
template <typename Rows>
class TwoMeans {
 public:
  TwoMeans(const Rows& rows, std::size_t n_left, unsigned n_threads)
      : rows_(rows), n_left_(n_left), n_threads_(n_threads), center_(rows.n_features), left_(rows.n_features),
        right_(rows.n_features), is_right_(rows.size()), scores_(rows.size()) {}

  // Which rows go to the right, after at most `max_iter` moves of the two centers.
  std::vector<std::uint8_t> run(int max_iter, Draws draws) {
    pick_two(draws);
    assign();
    for (std::size_t i = 0; i < rows_.size(); ++i) rows_.add(is_right_[i] ? right_ : left_, i, 1.0F);
    for (int pass = 1; pass < max_iter; ++pass) {
      take_difference();
      if (!assign()) break;
    }
    return std::move(is_right_);
  }

 private:
  void pick_two(Draws& draws) {
    const auto n = static_cast<std::uint32_t>(rows_.size());
    const std::uint32_t first = draws.below(n);
    std::uint32_t second = draws.below(n - 1);
    if (second >= first) ++second;
    rows_.add(center_, second, 1.0F);
    rows_.add(center_, first, -1.0F);
  }

  // center = right / |right| - left / |left|
  void take_difference() {
    const float scale_left = inverse_length(left_), scale_right = inverse_length(right_);
    for (std::size_t f = 0; f < center_.size(); ++f) center_[f] = right_[f] * scale_right - left_[f] * scale_left;
  }

  // The n_left rows with the lowest (score, index) go left; true if any row changed sides.
  bool assign() {
    constexpr std::size_t kChunk = 4096;
    const std::size_t n = rows_.size(), n_chunks = (n + kChunk - 1) / kChunk;
    parallel_for(n_chunks, n_threads_, [&](std::size_t chunk) {
      const std::size_t begin = chunk * kChunk, end = std::min(n, begin + kChunk);
      rows_.score(center_.data(), begin, end, scores_.data());
      for (std::size_t i = begin; i < end; ++i)
        if (!std::isfinite(scores_[i])) scores_[i] = 0.0F;  // NaN cannot be ordered
    });
    sorted_ = scores_;
    const auto at_cut = sorted_.begin() + static_cast<std::ptrdiff_t>(n_left_);
    std::nth_element(sorted_.begin(), at_cut, sorted_.end());
    const float cut = *at_cut;
    return move_to_sides(cut, std::count(sorted_.begin(), at_cut, cut));
  }

  // Rows below the cut go left, and so do the first `n_ties` rows at it.
  bool move_to_sides(float cut, std::ptrdiff_t n_ties) {
    bool has_changed = false;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::uint8_t side = scores_[i] > cut || (scores_[i] == cut && n_ties-- <= 0);
      if (side == is_right_[i]) continue;
      has_changed = true;
      is_right_[i] = side;
      if (!has_sums_) continue;
      rows_.add(side ? right_ : left_, i, 1.0F);
      rows_.add(side ? left_ : right_, i, -1.0F);
    }
    has_sums_ = true;
    return has_changed;
  }

  const Rows& rows_;
  const std::size_t n_left_;
  const unsigned n_threads_;
  std::vector<float> center_, left_, right_;  // over the node's features
  std::vector<std::uint8_t> is_right_;
  std::vector<float> scores_, sorted_;
  bool has_sums_ = false;  // false until the first assignment, which starts from two random rows
};

}  // namespace matchset
