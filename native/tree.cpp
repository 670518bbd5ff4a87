#include "tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "buffer.hpp"
#include "rng.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

// The rows of one node, with its features renumbered densely so that a center stays in the cache.
struct Rows {
  Buffer<std::int32_t> label;     // (n,)
  Buffer<std::size_t> begin{0};   // (n + 1,)
  Buffer<std::uint32_t> feature;  // (n_entries,)
  Buffer<float> value;            // (n_entries,)
  std::uint32_t n_features = 0;

  std::size_t size() const { return label.size(); }
};

// A range of labels to be cut into `n_parts` children of a node at `level`.
struct Range {
  Rows rows;
  std::size_t begin = 0;
  std::size_t level = 0;
  std::uint32_t n_parts = 1;
};

// Numbers features by first appearance while rows are added.
class Renumbering {
 public:
  explicit Renumbering(std::size_t n_features) : number_(n_features, kNone) {}

  template <typename Index>
  void add(Rows& rows, std::int32_t label, std::span<const Index> features, std::span<const float> values) {
    for (const Index feature : features) {
      std::uint32_t& number = number_[static_cast<std::size_t>(feature)];
      if (number == kNone) number = rows.n_features++;
      rows.feature.push_back(number);
    }
    rows.value.insert(rows.value.end(), values.begin(), values.end());
    rows.begin.push_back(rows.feature.size());
    rows.label.push_back(label);
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> number_;
};

void score_rows(const Rows& rows, const float* center, std::size_t begin, std::size_t end, float* scores) {
  for (std::size_t i = begin; i < end; ++i) {
    float sums[4] = {0, 0, 0, 0};  // four chains, added in one order on every machine
    std::size_t k = rows.begin[i];
    const std::size_t stop = rows.begin[i + 1];
    for (; k + 4 <= stop; k += 4)
      for (std::size_t j = 0; j < 4; ++j) sums[j] += rows.value[k + j] * center[rows.feature[k + j]];
    for (; k < stop; ++k) sums[0] += rows.value[k] * center[rows.feature[k]];
    const float score = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    scores[i] = std::isfinite(score) ? score : 0.0F;  // NaN cannot be ordered
  }
}

// Balanced spherical 2-means over the rows of one node.
class TwoMeans {
 public:
  TwoMeans(const Rows& rows, std::size_t n_left, unsigned n_threads)
      : rows_(rows), n_left_(n_left), n_threads_(n_threads), center_(rows.n_features), left_(rows.n_features),
        right_(rows.n_features), is_right_(rows.size()), scores_(rows.size()) {}

  // Which rows go to the right, after at most `max_iter` moves of the two centers.
  std::vector<std::uint8_t> run(int max_iter, Draws draws) {
    pick_two(draws);
    assign();
    for (std::size_t i = 0; i < rows_.size(); ++i) add(is_right_[i] ? right_ : left_, i, 1.0F);
    for (int pass = 1; pass < max_iter; ++pass) {
      take_difference();
      if (!assign()) break;
    }
    return std::move(is_right_);
  }

 private:
  void add(std::vector<float>& sum, std::size_t i, float sign) const {
    for (std::size_t k = rows_.begin[i]; k < rows_.begin[i + 1]; ++k) sum[rows_.feature[k]] += sign * rows_.value[k];
  }

  void pick_two(Draws& draws) {
    const auto n = static_cast<std::uint32_t>(rows_.size());
    const std::uint32_t first = draws.below(n);
    std::uint32_t second = draws.below(n - 1);
    if (second >= first) ++second;
    add(center_, second, 1.0F);
    add(center_, first, -1.0F);
  }

  // center = right / |right| - left / |left|
  void take_difference() {
    const float scale_left = inverse_length(left_), scale_right = inverse_length(right_);
    for (std::size_t f = 0; f < center_.size(); ++f) center_[f] = right_[f] * scale_right - left_[f] * scale_left;
  }

  static float inverse_length(const std::vector<float>& sum) {
    double squares = 0;
    for (const float x : sum) squares += double{x} * x;
    return squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0.0F;
  }

  // The n_left rows with the lowest (score, index) go left; true if any row changed sides.
  bool assign() {
    constexpr std::size_t kChunk = 4096;
    const std::size_t n = rows_.size(), n_chunks = (n + kChunk - 1) / kChunk;
    parallel_for(n_chunks, n_threads_, [&](std::size_t chunk) {
      score_rows(rows_, center_.data(), chunk * kChunk, std::min(n, (chunk + 1) * kChunk), scores_.data());
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
      add(side ? right_ : left_, i, 1.0F);
      add(side ? left_ : right_, i, -1.0F);
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

std::uint32_t parts_at(const TreePlan& plan, std::size_t level, std::size_t n) {
  if (level >= plan.splits.size()) return 1;
  return static_cast<std::uint32_t>(std::min<std::size_t>(static_cast<std::size_t>(plan.splits[level]), n));
}

// Moves on to the next level while there is nothing to cut at this one.
void settle(Range& range, const TreePlan& plan) {
  while (range.n_parts == 1 && range.level < plan.splits.size())
    range.n_parts = parts_at(plan, ++range.level, range.rows.size());
}

std::pair<Range, Range> cut(const Range& range, const TreePlan& plan, unsigned n_threads) {
  const std::size_t n = range.rows.size(), n_parts = range.n_parts, left_parts = n_parts / 2;
  const std::size_t n_left = left_parts * (n / n_parts) + std::min(left_parts, n % n_parts);
  TwoMeans two_means(range.rows, n_left, n_threads);
  const auto is_right = two_means.run(plan.max_iter, Draws(plan.seed, range.begin << 32 | n));
  Renumbering renumberings[2] = {Renumbering(range.rows.n_features), Renumbering(range.rows.n_features)};
  Range halves[2] = {{{}, range.begin, range.level, static_cast<std::uint32_t>(left_parts)},
                     {{}, range.begin + n_left, range.level, static_cast<std::uint32_t>(n_parts - left_parts)}};
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t begin = range.rows.begin[i], size = range.rows.begin[i + 1] - begin;
    renumberings[is_right[i]].add(halves[is_right[i]].rows, range.rows.label[i],
                                  std::span(range.rows.feature).subspan(begin, size),
                                  std::span(range.rows.value).subspan(begin, size));
  }
  for (Range& half : halves) settle(half, plan);
  return {std::move(halves[0]), std::move(halves[1])};
}

Range whole(const CsrView& embeddings, const TreePlan& plan) {
  Range range;
  Renumbering renumbering(embeddings.n_columns);
  for (std::size_t label = 0; label < embeddings.n_rows(); ++label) {
    const SparseRow row = embeddings[label];
    renumbering.add(range.rows, static_cast<std::int32_t>(label), row.index, row.value);
  }
  range.n_parts = parts_at(plan, 0, range.rows.size());
  settle(range, plan);
  return range;
}

// Cuts a range down to its leaves.
void finish(Range range, const TreePlan& plan, std::span<std::int32_t> order) {
  if (range.n_parts <= 1) {
    std::ranges::copy(range.rows.label, order.begin() + static_cast<std::ptrdiff_t>(range.begin));
    return;
  }
  auto [left, right] = cut(range, plan, 1);
  range.rows = {};
  finish(std::move(left), plan, order);
  finish(std::move(right), plan, order);
}

}  // namespace

std::vector<std::int32_t> order_labels(const CsrView& embeddings, const TreePlan& plan, unsigned n_threads) {
  constexpr std::size_t kSmall = 4096;  // labels of a range that one thread finishes, so that few ranges are in memory
  std::vector<std::int32_t> order(embeddings.n_rows());
  std::vector<Range> ranges;
  ranges.push_back(whole(embeddings, plan));
  while (!ranges.empty()) {
    std::vector<Range> halves(2 * ranges.size());
    // Few ranges: threads share the work inside each. Many: a range per thread.
    const bool are_few = ranges.size() < n_threads;
    parallel_for(ranges.size(), are_few ? 1 : n_threads, [&](std::size_t i) {
      Range range = std::move(ranges[i]);
      if (range.n_parts > 1 && (are_few || range.rows.size() > kSmall))
        std::tie(halves[2 * i], halves[2 * i + 1]) = cut(range, plan, are_few ? n_threads : 1);
      else
        finish(std::move(range), plan, order);
    });
    std::erase_if(halves, [](const Range& half) { return half.rows.size() == 0; });
    ranges = std::move(halves);
  }
  return order;
}

}  // namespace matchset
