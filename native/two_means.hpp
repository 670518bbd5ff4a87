// Two-means: how is a node cut in two halves of given sizes?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "crew.hpp"
#include "rng.hpp"

namespace matchset {

// A range of rows in the order of a tree, to be cut into `n_parts` children of a node at `level`.
struct Subtree {
  std::size_t begin = 0;
  std::size_t level = 0;
  std::uint32_t n_parts = 1;
};

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

// Features from `begin` to `end`, whose sums one thread adds up.
struct FeatureRange {
  std::size_t begin, end;
};

// Balanced spherical 2-means over rows of length one, which have `size()`, `n_features`,
// `add(sum, i, sign, features)`, `score(center, begin, end, scores)` and `cut_features(n)`.
//
// Threads share the rows where each row is on its own, and the features where rows are added up: the sum of a
// feature takes its rows in their order, so it does not depend on the number of threads.
template <typename Rows>
class TwoMeans {
 public:
  TwoMeans(const Rows& rows, std::size_t n_left, unsigned n_threads)
      : rows_(rows), n_left_(n_left), chunks_((rows.size() + kChunk - 1) / kChunk),
        n_threads_(static_cast<unsigned>(std::clamp<std::size_t>(chunks_.size(), 1, n_threads))),
        n_bins_(chunks_.size() > 1 ? 1024 : 1), center_(rows.n_features), left_(rows.n_features),
        right_(rows.n_features), is_right_(rows.size()), scores_(rows.size()) {}

  // Which rows go to the right, after at most `max_iter` moves of the two centers.
  std::vector<std::uint8_t> run(int max_iter, Draws draws) {
    pick_two(draws);
    slices_ = rows_.cut_features(n_threads_);
    Crew crew(n_threads_);
    crew.run([&](unsigned) { iterate(crew, max_iter); });
    return std::move(is_right_);
  }

  // The right center less the left one, over the features, after a run: what scores rows that were not part of it.
  std::vector<float> direction() {
    Crew crew(1);
    crew.run([&](unsigned) { static_cast<void>(take_difference(crew)); });
    return std::move(center_);
  }

 private:
  static constexpr std::size_t kChunk = 4096;

  // Rows that are looked at together.
  struct Chunk {
    std::vector<std::uint32_t> counts;  // of scores in each bin
    std::vector<float> near_cut;        // scores in the bin of the cut
    std::vector<std::uint32_t> moved;   // rows that changed sides
    std::ptrdiff_t n_ties = 0;          // of the rows at the cut, those that go left
  };

  void pick_two(Draws& draws) {
    const auto n = static_cast<std::uint32_t>(rows_.size());
    const std::uint32_t first = draws.below(n);
    std::uint32_t second = draws.below(n - 1);
    if (second >= first) ++second;
    rows_.add(center_, second, 1.0F, {0, center_.size()});
    rows_.add(center_, first, -1.0F, {0, center_.size()});
  }

  // Every thread of the crew runs this.
  void iterate(Crew& crew, int max_iter) {
    if (!assign(crew) || !add_all(crew)) return;  // the first assignment starts from two random rows
    for (int pass = 1; pass < max_iter; ++pass) {
      if (!take_difference(crew) || !assign(crew)) return;
      if (std::ranges::all_of(chunks_, [](const Chunk& chunk) { return chunk.moved.empty(); })) return;
      if (!add_moved(crew)) return;
    }
  }

  bool add_all(Crew& crew) {
    return crew.each(slices_.size(), [&](std::size_t slice) {
      for (std::size_t i = 0; i < rows_.size(); ++i) rows_.add(is_right_[i] ? right_ : left_, i, 1.0F, slices_[slice]);
    });
  }

  bool add_moved(Crew& crew) {
    return crew.each(slices_.size(), [&](std::size_t slice) {
      for (const Chunk& chunk : chunks_)
        for (const std::uint32_t i : chunk.moved) {
          rows_.add(is_right_[i] ? right_ : left_, i, 1.0F, slices_[slice]);
          rows_.add(is_right_[i] ? left_ : right_, i, -1.0F, slices_[slice]);
        }
    });
  }

  // center = right / |right| - left / |left|
  bool take_difference(Crew& crew) {
    constexpr std::size_t kFeatures = 16384;
    if (!crew.each(2, [&](std::size_t side) { scales_[side] = inverse_length(side ? right_ : left_); })) return false;
    return crew.each((center_.size() + kFeatures - 1) / kFeatures, [&](std::size_t part) {
      const std::size_t end = std::min(center_.size(), (part + 1) * kFeatures);
      for (std::size_t f = part * kFeatures; f < end; ++f) center_[f] = right_[f] * scales_[1] - left_[f] * scales_[0];
    });
  }

  // The n_left rows with the lowest (score, index) go left. Where the cut lies is found by counting scores in bins.
  bool assign(Crew& crew) {
    return crew.each(chunks_.size(), [&](std::size_t c) { score(c); }) &&
           crew.each(1, [&](std::size_t) { find_bin(); }) &&
           crew.each(chunks_.size(), [&](std::size_t c) { collect(c); }) &&
           crew.each(1, [&](std::size_t) { find_cut(); }) &&
           crew.each(chunks_.size(), [&](std::size_t c) { move_to_sides(c); });
  }

  // Ascends with the score, which is between -2 and 2 for rows of length one.
  std::size_t bin_of(float score) const {
    const float at = (score + 2.0F) * static_cast<float>(n_bins_) / 4.0F;
    return at > 0 ? static_cast<std::size_t>(std::min(at, static_cast<float>(n_bins_ - 1))) : 0;
  }

  std::size_t end_of(std::size_t c) const { return std::min(rows_.size(), (c + 1) * kChunk); }

  void score(std::size_t c) {
    chunks_[c].counts.assign(n_bins_, 0);
    rows_.score(center_.data(), c * kChunk, end_of(c), scores_.data());
    for (std::size_t i = c * kChunk; i < end_of(c); ++i) {
      if (!std::isfinite(scores_[i])) scores_[i] = 0.0F;  // NaN cannot be ordered
      ++chunks_[c].counts[bin_of(scores_[i])];
    }
  }

  void find_bin() {
    n_below_ = 0;
    for (bin_ = 0; bin_ < n_bins_; ++bin_) {
      std::size_t n = 0;
      for (const Chunk& chunk : chunks_) n += chunk.counts[bin_];
      if (n_below_ + n > n_left_) return;
      n_below_ += n;
    }
  }

  void collect(std::size_t c) {
    chunks_[c].near_cut.clear();
    for (std::size_t i = c * kChunk; i < end_of(c); ++i)
      if (bin_of(scores_[i]) == bin_) chunks_[c].near_cut.push_back(scores_[i]);
  }

  // Rows below the cut go left, and so do the first rows at it, until there are enough.
  void find_cut() {
    sorted_.clear();
    for (const Chunk& chunk : chunks_) sorted_.insert(sorted_.end(), chunk.near_cut.begin(), chunk.near_cut.end());
    const auto at_cut = sorted_.begin() + static_cast<std::ptrdiff_t>(n_left_ - n_below_);
    std::nth_element(sorted_.begin(), at_cut, sorted_.end());
    cut_ = *at_cut;
    std::ptrdiff_t n_ties = std::count(sorted_.begin(), at_cut, cut_);
    for (Chunk& chunk : chunks_) {
      chunk.n_ties = n_ties;
      n_ties -= std::count(chunk.near_cut.begin(), chunk.near_cut.end(), cut_);
    }
  }

  void move_to_sides(std::size_t c) {
    Chunk& chunk = chunks_[c];
    chunk.moved.clear();
    for (std::size_t i = c * kChunk; i < end_of(c); ++i) {
      const std::uint8_t side = scores_[i] > cut_ || (scores_[i] == cut_ && chunk.n_ties-- <= 0);
      if (side == is_right_[i]) continue;
      is_right_[i] = side;
      chunk.moved.push_back(static_cast<std::uint32_t>(i));
    }
  }

  const Rows& rows_;
  const std::size_t n_left_;
  std::vector<Chunk> chunks_;
  const unsigned n_threads_;
  const std::size_t n_bins_;
  std::vector<FeatureRange> slices_;          // of the sums, one for each thread
  std::vector<float> center_, left_, right_;  // over the node's features
  float scales_[2] = {};                      // 1 / |left|, 1 / |right|
  std::vector<std::uint8_t> is_right_;
  std::vector<float> scores_, sorted_;
  std::size_t bin_ = 0, n_below_ = 0;  // bin of the cut, and rows in those below it
  float cut_ = 0;
};

}  // namespace matchset
