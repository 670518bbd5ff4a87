#include "tree.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "buffer.hpp"
#include "rng.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kChunk = 2048;  // rows that a thread takes at once
std::size_t count_chunks(std::size_t n) { return (n + kChunk - 1) / kChunk; }

// Calls work(i, chunk) for every row i below n.
template <typename Work>
void for_rows(std::size_t n, unsigned n_threads, Work&& work) {
  parallel_for(count_chunks(n), n_threads, [&](std::size_t c) {
    for (std::size_t i = c * kChunk; i < std::min(n, (c + 1) * kChunk); ++i) work(i, c);
  });
}

// Four chains, added in one order on every machine.
template <typename Feature>
float dot(const Feature* feature, const float* value, std::size_t n, const float* center) {
  float sums[4] = {0, 0, 0, 0};
  std::size_t k = 0;
  for (; k + 4 <= n; k += 4)
    for (std::size_t j = 0; j < 4; ++j) sums[j] += value[k + j] * center[feature[k + j]];
  for (; k < n; ++k) sums[0] += value[k] * center[feature[k]];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The rows of one node, with its features renumbered densely so that a center stays in the cache.
struct Rows {
  RawBuffer<std::int32_t> label;     // (n,)
  Buffer<std::size_t> begin{0};      // (n + 1,)
  RawBuffer<std::uint32_t> feature;  // (n_entries,)
  RawBuffer<float> value;            // (n_entries,)
  std::size_t n_features = 0;

  std::size_t size() const { return label.size(); }
  std::int32_t label_of(std::size_t i) const { return label[i]; }
  std::span<const std::uint32_t> features_of(std::size_t i) const {
    return std::span(feature).subspan(begin[i], begin[i + 1] - begin[i]);
  }
  std::span<const float> values_of(std::size_t i) const {
    return std::span(value).subspan(begin[i], begin[i + 1] - begin[i]);
  }

  void add(std::vector<float>& sum, std::size_t i, float sign, FeatureRange range) const {
    const auto first = static_cast<std::uint32_t>(range.begin), n = static_cast<std::uint32_t>(range.end) - first;
    for (std::size_t k = begin[i]; k < begin[i + 1]; ++k)
      if (feature[k] - first < n) sum[feature[k]] += sign * value[k];
  }

  void score(const float* center, std::size_t first, std::size_t last, float* scores) const {
    for (std::size_t i = first; i < last; ++i)
      scores[i] = dot(feature.data() + begin[i], value.data() + begin[i], begin[i + 1] - begin[i], center);
  }

  // Up to n ranges of features with about equally many entries, by a sample of these.
  std::vector<FeatureRange> cut_features(std::size_t n) const {
    constexpr std::size_t kStep = 61;
    std::vector<std::size_t> counts(n > 1 ? n_features : 0);
    for (std::size_t k = 0; k < feature.size() && n > 1; k += kStep) ++counts[feature[k]];
    const std::size_t most = feature.size() / kStep / n + 1;
    std::vector<FeatureRange> ranges{{0, n_features}};
    for (std::size_t f = 0, sum = 0; f < counts.size(); ++f) {
      sum += counts[f];
      if (sum < most) continue;
      ranges.back().end = f + 1;
      ranges.push_back({f + 1, n_features});
      sum = 0;
    }
    return ranges;
  }
};

// The rows that are to be cut first.
struct Embeddings {
  const CsrView& matrix;  // every row was read before
  std::size_t n_features = matrix.n_columns;

  std::int32_t label_of(std::size_t i) const { return static_cast<std::int32_t>(i); }
  std::span<const std::int32_t> features_of(std::size_t i) const { return matrix.again(i).index; }
  std::span<const float> values_of(std::size_t i) const { return matrix.again(i).value; }
};

// A range of labels to be cut into `n_parts` children of a node at `level`.
struct Range {
  Rows rows;
  std::size_t begin = 0;
  std::size_t level = 0;
  std::uint32_t n_parts = 1;

  std::size_t size() const { return rows.size(); }
};

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

void set_if_lower(std::uint32_t& number, std::uint32_t to) {
  const std::atomic_ref shared(number);
  std::uint32_t seen = shared.load(std::memory_order_relaxed);
  while (to < seen && !shared.compare_exchange_weak(seen, to, std::memory_order_relaxed)) continue;
}

// Numbers the features of some rows by their first appearance.
template <typename Source>
std::vector<std::uint32_t> number_features(const Source& source, std::span<const std::uint32_t> chosen,
                                           unsigned n_threads, std::size_t& n_features) {
  std::vector<std::uint32_t> number(source.n_features, kNone);
  if (n_threads == 1) {
    for (const std::uint32_t i : chosen)
      for (const auto f : source.features_of(i))
        if (std::uint32_t& own = number[static_cast<std::size_t>(f)]; own == kNone)
          own = static_cast<std::uint32_t>(n_features++);
    return number;
  }
  for_rows(chosen.size(), n_threads, [&](std::size_t i, std::size_t) {
    for (const auto f : source.features_of(chosen[i]))
      set_if_lower(number[static_cast<std::size_t>(f)], static_cast<std::uint32_t>(i));
  });
  std::vector<std::vector<std::size_t>> found(count_chunks(chosen.size()));  // features that appear first in each chunk
  for_rows(chosen.size(), n_threads, [&](std::size_t i, std::size_t chunk) {
    for (const auto f : source.features_of(chosen[i]))
      if (number[static_cast<std::size_t>(f)] == i) found[chunk].push_back(static_cast<std::size_t>(f));
  });
  for (const auto& chunk : found)
    for (const std::size_t f : chunk) number[f] = static_cast<std::uint32_t>(n_features++);
  return number;
}

// Copies the chosen rows.
template <typename Source>
Rows take(const Source& source, std::span<const std::uint32_t> chosen, unsigned n_threads) {
  Rows rows;
  const std::vector<std::uint32_t> number = number_features(source, chosen, n_threads, rows.n_features);
  rows.begin.resize(chosen.size() + 1);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    rows.begin[i + 1] = rows.begin[i] + source.features_of(chosen[i]).size();
  rows.label.resize(chosen.size());
  rows.feature.resize(rows.begin.back());
  rows.value.resize(rows.begin.back());
  for_rows(chosen.size(), n_threads, [&](std::size_t i, std::size_t) {
    rows.label[i] = source.label_of(chosen[i]);
    std::size_t k = rows.begin[i];
    for (const auto f : source.features_of(chosen[i])) rows.feature[k++] = number[static_cast<std::size_t>(f)];
    std::ranges::copy(source.values_of(chosen[i]), rows.value.begin() + static_cast<std::ptrdiff_t>(rows.begin[i]));
  });
  return rows;
}

std::pair<Range, Range> cut(const Range& range, const TreePlan& plan, unsigned n_threads) {
  const std::size_t n = range.rows.size(), n_parts = range.n_parts, left_parts = n_parts / 2;
  const std::size_t n_left = size_of_left(n, n_parts);
  TwoMeans two_means(range.rows, n_left, n_threads);
  const auto is_right = two_means.run(plan.max_iter, Draws(plan.seed, range.begin << 32 | n));
  std::vector<std::uint32_t> chosen[2];
  for (std::size_t i = 0; i < n; ++i) chosen[is_right[i]].push_back(static_cast<std::uint32_t>(i));
  Range halves[2] = {{{}, range.begin, range.level, static_cast<std::uint32_t>(left_parts)},
                     {{}, range.begin + n_left, range.level, static_cast<std::uint32_t>(n_parts - left_parts)}};
  parallel_for(2, n_threads, [&](std::size_t half) {
    halves[half].rows = take(range.rows, chosen[half], std::max(1U, n_threads / 2));
    plan.settle(halves[half]);
  });
  return {std::move(halves[0]), std::move(halves[1])};
}

void check_rows(const CsrView& embeddings, unsigned n_threads) {
  for_rows(embeddings.n_rows(), n_threads, [&](std::size_t i, std::size_t) { static_cast<void>(embeddings[i]); });
}

Range whole(const CsrView& embeddings, const TreePlan& plan, const Subtree& root, unsigned n_threads) {
  check_rows(embeddings, n_threads);
  std::vector<std::uint32_t> labels(embeddings.n_rows());
  std::iota(labels.begin(), labels.end(), 0U);
  Range range{take(Embeddings{embeddings}, labels, n_threads), root.begin, root.level, root.n_parts};
  plan.settle(range);
  return range;
}

// Cuts a range down to its leaves; the order begins with the label at position `first`.
void finish(Range range, const TreePlan& plan, std::size_t first, std::span<std::int32_t> order) {
  if (range.n_parts <= 1) {
    std::ranges::copy(range.rows.label, order.begin() + static_cast<std::ptrdiff_t>(range.begin - first));
    return;
  }
  auto [left, right] = cut(range, plan, 1);
  range.rows = {};
  finish(std::move(left), plan, first, order);
  finish(std::move(right), plan, first, order);
}

// One label of each of `n` even ranges.
std::vector<std::uint32_t> sample(std::span<const std::int32_t> labels, std::size_t n, Draws draws) {
  std::vector<std::uint32_t> chosen(std::min(n, labels.size()));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::size_t begin = i * labels.size() / chosen.size(), end = (i + 1) * labels.size() / chosen.size();
    const std::size_t at = begin + (end - begin > 1 ? draws.below(static_cast<std::uint32_t>(end - begin)) : 0);
    chosen[i] = static_cast<std::uint32_t>(labels[at]);
  }
  return chosen;
}

// The n_left lowest (score, index) go left.
std::vector<std::uint8_t> split_scores(const RawBuffer<float>& scores, std::size_t n_left) {
  RawBuffer<float> sorted = scores;
  const auto at_cut = sorted.begin() + static_cast<std::ptrdiff_t>(n_left);
  std::nth_element(sorted.begin(), at_cut, sorted.end());
  const float at = *at_cut;
  auto n_ties = std::count(sorted.begin(), at_cut, at);
  std::vector<std::uint8_t> is_right(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) is_right[i] = scores[i] > at || (scores[i] == at && n_ties-- <= 0);
  return is_right;
}

// Which labels of a node at the top go right.
std::vector<std::uint8_t> cut_sampled(const CsrView& embeddings, std::span<const std::int32_t> labels,
                                      std::size_t n_left, std::size_t n_sampled, int max_iter, Draws draws,
                                      unsigned n_threads) {
  const std::size_t n = labels.size();
  const std::vector<std::uint32_t> chosen = sample(labels, n_sampled, draws);
  const Rows rows = take(Embeddings{embeddings}, chosen, n_threads);
  if (rows.size() == n) return TwoMeans(rows, n_left, n_threads).run(max_iter, draws);
  TwoMeans two_means(rows, std::clamp<std::size_t>(n_left * rows.size() / n, 1, rows.size() - 1), n_threads);
  static_cast<void>(two_means.run(max_iter, draws));
  const std::vector<float> direction = two_means.direction();
  std::vector<float> center(embeddings.n_columns);  // over all features
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto features = embeddings.again(chosen[i]).index;
    for (std::size_t k = 0; k < features.size(); ++k)
      center[static_cast<std::size_t>(features[k])] = direction[rows.features_of(i)[k]];
  }
  RawBuffer<float> scores(n);
  for_rows(n, n_threads, [&](std::size_t i, std::size_t) {
    const SparseRow row = embeddings.again(static_cast<std::size_t>(labels[i]));
    const float score = dot(row.index.data(), row.value.data(), row.size(), center.data());
    scores[i] = std::isfinite(score) ? score : 0.0F;
  });
  return split_scores(scores, n_left);
}

// Labels of a node at the top, a range of the order.
struct TopRange : Subtree {
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

}  // namespace

Subtree whole_tree(const CsrView& embeddings, const TreePlan& plan) {
  return {0, 0, plan.parts_at(0, embeddings.n_rows())};
}

std::vector<std::int32_t> order_labels(const CsrView& embeddings, const TreePlan& plan, const Subtree& root,
                                       unsigned n_threads) {
  constexpr std::size_t kSmall = 4096;  // labels of a range that one thread finishes, so that few ranges are in memory
  if (embeddings.n_rows() <= kSmall) n_threads = 1;
  const auto is_cut = [&](const Range& range) { return range.n_parts > 1 && range.size() > kSmall; };
  std::vector<std::int32_t> order(embeddings.n_rows());
  std::vector<Range> ranges;
  ranges.push_back(whole(embeddings, plan, root, n_threads));
  // Few ranges: threads share the work inside each.
  while (ranges.size() < n_threads && std::ranges::all_of(ranges, is_cut)) {
    std::vector<Range> halves(2 * ranges.size());
    const auto n_each = static_cast<unsigned>((n_threads + ranges.size() - 1) / ranges.size());
    parallel_for(ranges.size(), n_threads, [&](std::size_t i) {
      std::tie(halves[2 * i], halves[2 * i + 1]) = cut(ranges[i], plan, n_each);
      ranges[i].rows = {};
    });
    ranges = std::move(halves);
  }
  // Many: a range per thread.
  parallel_unfold(std::move(ranges), n_threads, [&](Range range) {
    std::vector<Range> halves;
    if (!is_cut(range)) {
      finish(std::move(range), plan, root.begin, order);
      return halves;
    }
    auto [left, right] = cut(range, plan, 1);
    halves.push_back(std::move(left));
    halves.push_back(std::move(right));
    return halves;
  });
  return order;
}

TreeTop cut_top(const CsrView& embeddings, const TreePlan& plan, std::size_t most, std::size_t n_sampled,
                unsigned n_threads) {
  check_rows(embeddings, n_threads);
  TreeTop top;
  top.order.resize(embeddings.n_rows());
  std::iota(top.order.begin(), top.order.end(), 0);
  TopRange all{whole_tree(embeddings, plan), embeddings.n_rows()};
  plan.settle(all);
  std::vector<TopRange> waiting{all};  // the leftmost last
  while (!waiting.empty()) {
    const TopRange range = waiting.back();
    waiting.pop_back();
    if (range.n_parts <= 1 || range.size() <= most) {
      top.subtrees.push_back(range);
      continue;
    }
    const std::size_t n_left = size_of_left(range.size(), range.n_parts);
    const auto labels = std::span(top.order).subspan(range.begin, range.size());
    const Draws draws(plan.seed, range.begin << 32 | range.size());
    const auto is_right = cut_sampled(embeddings, labels, n_left, n_sampled, plan.max_iter, draws, n_threads);
    std::vector<std::int32_t> moved(labels.size());
    std::size_t next[2] = {0, n_left};
    for (std::size_t i = 0; i < labels.size(); ++i) moved[next[is_right[i]]++] = labels[i];
    std::ranges::copy(moved, labels.begin());
    TopRange left = range, right = range;
    left.end = right.begin = range.begin + n_left;
    left.n_parts = range.n_parts / 2, right.n_parts = range.n_parts - left.n_parts;
    plan.settle(left), plan.settle(right);
    waiting.push_back(right), waiting.push_back(left);
  }
  return top;
}

}  // namespace matchset
