#include "tree.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
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

  void add(std::vector<float>& sum, std::size_t i, float sign) const {
    for (std::size_t k = begin[i]; k < begin[i + 1]; ++k) sum[feature[k]] += sign * value[k];
  }

  void score(const float* center, std::size_t first, std::size_t last, float* scores) const {
    for (std::size_t i = first; i < last; ++i) {
      float sums[4] = {0, 0, 0, 0};  // four chains, added in one order on every machine
      std::size_t k = begin[i];
      const std::size_t stop = begin[i + 1];
      for (; k + 4 <= stop; k += 4)
        for (std::size_t j = 0; j < 4; ++j) sums[j] += value[k + j] * center[feature[k + j]];
      for (; k < stop; ++k) sums[0] += value[k] * center[feature[k]];
      scores[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }
};

// A range of labels to be cut into `n_parts` children of a node at `level`.
struct Range {
  Rows rows;
  std::size_t begin = 0;
  std::size_t level = 0;
  std::uint32_t n_parts = 1;

  std::size_t size() const { return rows.size(); }
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

std::pair<Range, Range> cut(const Range& range, const TreePlan& plan, unsigned n_threads) {
  const std::size_t n = range.rows.size(), n_parts = range.n_parts, left_parts = n_parts / 2;
  const std::size_t n_left = size_of_left(n, n_parts);
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
  for (Range& half : halves) plan.settle(half);
  return {std::move(halves[0]), std::move(halves[1])};
}

Range whole(const CsrView& embeddings, const TreePlan& plan) {
  Range range;
  Renumbering renumbering(embeddings.n_columns);
  for (std::size_t label = 0; label < embeddings.n_rows(); ++label) {
    const SparseRow row = embeddings[label];
    renumbering.add(range.rows, static_cast<std::int32_t>(label), row.index, row.value);
  }
  range.n_parts = plan.parts_at(0, range.size());
  plan.settle(range);
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
