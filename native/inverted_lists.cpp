#include "inverted_lists.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kQueries = 16;  // per item of work

void check_offsets(std::span<const std::int64_t> offsets, std::size_t n_ranges, std::size_t n_items) {
  if (offsets.size() != n_ranges + 1 || offsets.front() != 0 || offsets.back() != static_cast<std::int64_t>(n_items) ||
      !std::ranges::is_sorted(offsets))
    throw std::invalid_argument("offsets of inverted lists must ascend from 0 to " + std::to_string(n_items) + " in " +
                                std::to_string(n_ranges + 1) + " entries; got " + std::to_string(offsets.size()));
}

void check_vectors(const ByteVectors& vectors, std::size_t dimensions) {
  if (vectors.dimensions != dimensions || vectors.values.size() != vectors.size() * dimensions)
    throw std::invalid_argument("vectors must have " + std::to_string(dimensions) + " bytes each; got " +
                                std::to_string(vectors.values.size()) + " for " + std::to_string(vectors.size()));
}

}  // namespace

void InvertedLists::check() const {
  check_offsets(group_begin, groups.size(), clusters.size());
  check_offsets(list_begin, clusters.size(), products.size());
  for (const ByteVectors* vectors : {&groups, &clusters, &products}) check_vectors(*vectors, products.dimensions);
  if (labels.size() != products.size())
    throw std::invalid_argument("there must be one label per product; got " + std::to_string(labels.size()));
}

void ListsSearch::reset(const InvertedLists& lists) {
  if (lists.products.dimensions != query_.dimensions()) query_ = ByteQuery(lists.products.dimensions);
  lists_ = &lists;
}

float ListsSearch::score_product(const InvertedLists& lists, std::size_t index) const {
  if (query_.is_zero()) return 0;
  float cosine;
  query_.score(lists.products, index, index + 1, &cosine);
  return cosine;
}

void ListsSearch::keep_best(std::vector<std::pair<float, std::size_t>>& candidates, std::size_t n) {
  const auto is_better = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  n = std::min(n, candidates.size());
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(n);
  std::partial_sort(candidates.begin(), end, candidates.end(), is_better);
  candidates.resize(n);
}

void ListsSearch::score(const ByteVectors& vectors, std::size_t begin, std::size_t end) {
  scores_.resize(std::max(scores_.size(), end - begin));
  query_.score(vectors, begin, end, scores_.data());
}

void ListsSearch::expand(const ByteVectors& centroids, std::size_t begin, std::size_t end) {
  score(centroids, begin, end);
  for (std::size_t i = begin; i < end; ++i) clusters_.emplace_back(scores_[i - begin], i);
}

void ListsSearch::choose_clusters(const ListsRule& rule) {
  clusters_.clear();
  expand(lists_->groups, 0, lists_->groups.size());
  keep_best(clusters_, rule.n_groups);
  std::swap(groups_, clusters_);
  clusters_.clear();
  for (const auto& [_, group] : groups_)
    expand(lists_->clusters, static_cast<std::size_t>(lists_->group_begin[group]),
           static_cast<std::size_t>(lists_->group_begin[group + 1]));
  keep_best(clusters_, rule.n_lists);
}

std::span<const Scored> ListsSearch::find(std::span<const float> vector, const ListsRule& rule) {
  found_.clear();
  query_.set(vector);
  if (query_.is_zero()) return found_;
  choose_clusters(rule);
  for (const auto& [_, cluster] : clusters_)  // the rest of a run of memory is fetched as it is read
    if (const auto begin = static_cast<std::size_t>(lists_->list_begin[cluster]); begin < lists_->products.size())
      lists_->products.prefetch(begin);
  for (const auto& [_, cluster] : clusters_) append_list(*lists_, cluster);
  return found_;
}

std::span<const Scored> ListsSearch::find_more(const InvertedLists& more) {
  found_.clear();
  if (query_.is_zero()) return found_;
  for (const auto& [_, cluster] : clusters_) append_list(more, cluster);
  return found_;
}

void ListsSearch::append_list(const InvertedLists& lists, std::size_t cluster) {
  const auto begin = static_cast<std::size_t>(lists.list_begin[cluster]);
  const auto end = static_cast<std::size_t>(lists.list_begin[cluster + 1]);
  score(lists.products, begin, end);
  for (std::size_t i = begin; i < end; ++i) found_.emplace_back(lists.labels[i], scores_[i - begin]);
}

std::size_t ListsSearch::find_cluster(const std::int8_t* values, float scale, std::size_t n_groups) {
  query_.set(values, scale);
  choose_clusters({n_groups, 1});
  return clusters_.empty() ? 0 : clusters_.front().second;
}

std::vector<std::vector<Scored>> search_lists(const InvertedLists& lists, std::span<const float> vectors,
                                              const ListsRule& rule, std::size_t k, unsigned n_threads) {
  const std::size_t d = lists.products.dimensions, n = vectors.size() / d;
  std::vector<std::vector<Scored>> results(n);
  parallel_for((n + kQueries - 1) / kQueries, n_threads, [&](std::size_t item) {
    ListsSearch search(lists);
    for (std::size_t i = item * kQueries; i < std::min(n, (item + 1) * kQueries); ++i) {
      const auto found = search.find(vectors.subspan(i * d, d), rule);
      results[i].resize(std::min(k, found.size()));
      std::ranges::partial_sort_copy(found, results[i], [](const Scored& a, const Scored& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
      });
    }
  });
  return results;
}

std::vector<std::int32_t> assign_clusters(const InvertedLists& lists, const ByteVectors& vectors, std::size_t n_groups,
                                          unsigned n_threads) {
  constexpr std::size_t kVectors = 256;  // per item of work
  std::vector<std::int32_t> nearest(vectors.size());
  parallel_for((vectors.size() + kVectors - 1) / kVectors, n_threads, [&](std::size_t item) {
    ListsSearch search(lists);
    for (std::size_t i = item * kVectors; i < std::min(vectors.size(), (item + 1) * kVectors); ++i)
      nearest[i] = static_cast<std::int32_t>(search.find_cluster(vectors.row(i), vectors.scales[i], n_groups));
  });
  return nearest;
}

}  // namespace matchset
