#include "inverted_lists.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "document_table.hpp"
#include "select.hpp"
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

// Where the range of the i-th key begins and ends; beyond the last key there is nothing.
std::size_t first_of(std::span<const std::int64_t> begins, std::span<const std::uint64_t> keys, std::size_t i) {
  return i < keys.size() ? static_cast<std::size_t>(begins[document_of(keys[i])]) : ByteQuery::kNothing;
}
std::size_t end_of(std::span<const std::int64_t> begins, std::span<const std::uint64_t> keys, std::size_t i) {
  return static_cast<std::size_t>(begins[document_of(keys[i]) + 1]);
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

void ListsSearch::score_products(const ByteVectors& products, std::span<const std::uint32_t> indices,
                                 float* out) const {
  if (query_.is_zero())
    std::fill_n(out, indices.size(), 0.0F);
  else
    query_.score(products, indices, out);
}

void ListsSearch::expand(const ByteVectors& centroids, std::size_t begin, std::size_t end, std::size_t next) {
  scores_.resize(std::max(scores_.size(), end - begin));
  query_.score(centroids, begin, end, scores_.data(), next);
  for (std::size_t i = begin; i < end; ++i)
    nearest_.push_back(to_key(scores_[i - begin], static_cast<std::uint32_t>(i)));
}

void ListsSearch::choose_clusters(const ListsRule& rule) {
  nearest_.clear();
  expand(lists_->groups, 0, lists_->groups.size(), ByteQuery::kNothing);
  keep_smallest(nearest_, rule.n_groups, spare_);
  std::swap(groups_, nearest_);
  nearest_.clear();
  for (std::size_t i = 0; i < groups_.size(); ++i)
    expand(lists_->clusters, first_of(lists_->group_begin, groups_, i), end_of(lists_->group_begin, groups_, i),
           first_of(lists_->group_begin, groups_, i + 1));
  keep_smallest(nearest_, rule.n_lists, spare_);
}

std::span<const Scored> ListsSearch::find(std::span<const float> vector, const ListsRule& rule) {
  found_.clear();
  query_.set(vector);
  if (query_.is_zero()) return found_;
  choose_clusters(rule);
  append_lists(*lists_);
  return found_;
}

std::span<const Scored> ListsSearch::find_more(const InvertedLists& more) {
  found_.clear();
  if (!query_.is_zero()) append_lists(more);
  return found_;
}

void ListsSearch::append_lists(const InvertedLists& lists) {
  for (std::size_t c = 0; c < nearest_.size(); ++c) {
    const std::size_t begin = first_of(lists.list_begin, nearest_, c), end = end_of(lists.list_begin, nearest_, c);
    scores_.resize(std::max(scores_.size(), end - begin));
    query_.score(lists.products, begin, end, scores_.data(), first_of(lists.list_begin, nearest_, c + 1));
    for (std::size_t i = begin; i < end; ++i) found_.emplace_back(lists.labels[i], scores_[i - begin]);
  }
}

std::size_t ListsSearch::find_cluster(const std::int8_t* values, float scale, std::size_t n_groups) {
  query_.set(values, scale);
  choose_clusters({n_groups, 1});
  return nearest_.empty() ? 0 : document_of(nearest_.front());
}

std::span<const std::uint32_t> ListsSearch::find_near(std::size_t cluster, const ListsRule& rule) {
  query_.set(lists_->clusters.row(cluster), lists_->clusters.scales[cluster]);
  choose_clusters(rule);
  near_.clear();
  for (const std::uint64_t key : nearest_) near_.push_back(document_of(key));
  return near_;
}

std::vector<std::vector<Scored>> search_lists(const InvertedLists& lists, std::span<const float> vectors,
                                              const ListsRule& rule, std::size_t k,
                                              std::span<const std::uint8_t> allowed, unsigned n_threads) {
  const auto is_out = [&](const Scored& one) {
    const auto label = static_cast<std::size_t>(one.first);  // a negative one is huge
    return label >= allowed.size() || allowed[label] == 0;
  };
  const std::size_t d = lists.products.dimensions, n = vectors.size() / d;
  std::vector<std::vector<Scored>> results(n);
  parallel_for((n + kQueries - 1) / kQueries, n_threads, [&](std::size_t item) {
    ListsSearch search(lists);
    std::vector<Scored> found;
    for (std::size_t i = item * kQueries; i < std::min(n, (item + 1) * kQueries); ++i) {
      const auto all = search.find(vectors.subspan(i * d, d), rule);
      found.assign(all.begin(), all.end());
      if (!allowed.empty()) std::erase_if(found, is_out);
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

std::vector<std::int32_t> assign_near(const InvertedLists& lists, const ByteVectors& vectors,
                                      std::span<const std::int64_t> begins, std::size_t first, const ListsRule& rule,
                                      unsigned n_threads) {
  constexpr std::size_t kLists = 16;  // per item of work
  const std::size_t n_lists = begins.empty() ? 0 : begins.size() - 1, n_clusters = lists.clusters.size();
  check_offsets(begins, n_lists, vectors.size());
  if (n_lists > n_clusters || first > n_clusters - n_lists)
    throw std::invalid_argument("lists must be among the " + std::to_string(n_clusters) + " clusters; got " +
                                std::to_string(n_lists) + " from " + std::to_string(first));
  std::vector<std::int32_t> nearest(vectors.size());
  parallel_for((n_lists + kLists - 1) / kLists, n_threads, [&](std::size_t item) {
    ListsSearch search(lists);
    ByteQuery query(vectors.dimensions);
    std::vector<std::int8_t> values;  // the centroids that all vectors of a list are compared with
    std::vector<float> scales, scores;
    for (std::size_t list = item * kLists; list < std::min(n_lists, (item + 1) * kLists); ++list) {
      const auto near = search.find_near(first + list, rule);
      if (near.empty()) throw std::invalid_argument("groups of clusters must not be empty");
      values.clear(), scales.clear(), scores.resize(near.size());
      for (const std::uint32_t c : near) {
        values.insert(values.end(), lists.clusters.row(c), lists.clusters.row(c) + vectors.dimensions);
        scales.push_back(lists.clusters.scales[c]);
      }
      const ByteVectors centroids{values, scales, vectors.dimensions};
      for (auto i = static_cast<std::size_t>(begins[list]); i < static_cast<std::size_t>(begins[list + 1]); ++i) {
        query.set(vectors.row(i), vectors.scales[i]);
        query.score(centroids, 0, near.size(), scores.data());
        std::uint64_t best = to_key(scores[0], near[0]);
        for (std::size_t c = 1; c < near.size(); ++c) best = std::min(best, to_key(scores[c], near[c]));
        nearest[i] = static_cast<std::int32_t>(document_of(best));
      }
    }
  });
  return nearest;
}

}  // namespace matchset
