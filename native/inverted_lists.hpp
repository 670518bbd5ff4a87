// Inverted lists: which clusters of products does a query vector lead to?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "vectors.hpp"

namespace matchset {

// Clusters in two levels over products that lie in the order of their clusters.
struct InvertedLists {
  std::span<const std::int64_t> group_begin;  // clusters of each group, (n_groups + 1,)
  std::span<const std::int64_t> list_begin;   // products of each cluster, (n_clusters + 1,)
  ByteVectors groups, clusters;               // centroids
  ByteVectors products;
  std::span<const std::int32_t> labels;  // of each product

  // Throws unless sizes and offsets agree: a search then stays inside every array.
  void check() const;
};

// How far a search looks.
struct ListsRule {
  std::size_t n_groups;  // groups whose clusters are compared with the query
  std::size_t n_lists;   // clusters whose products are
};

// A product's label and cosine.
using Scored = std::pair<std::int32_t, float>;

// Memory of a search, for one thread.
class ListsSearch {
 public:
  explicit ListsSearch(const InvertedLists& lists) : lists_(&lists), query_(lists.products.dimensions) {}
  // Goes on with other lists, in the same memory.
  void reset(const InvertedLists& lists);

  // All products of the clusters nearest to the vector, cluster by cluster; none for a vector of zeros.
  std::span<const Scored> find(std::span<const float> vector, const ListsRule& rule);
  // All products of other lists in the clusters that the last vector led to.
  std::span<const Scored> find_more(const InvertedLists& more);
  // Cosines of the last vector and some products, by their indices; 0 for a vector of zeros.
  void score_products(const ByteVectors& products, std::span<const std::uint32_t> indices, float* out) const;
  // The cluster nearest to a vector of bytes among those of the nearest groups.
  std::size_t find_cluster(const std::int8_t* values, float scale, std::size_t n_groups);
  // The nearest clusters of one of the clusters, as many as the rule says; the nearest first.
  std::span<const std::uint32_t> find_near(std::size_t cluster, const ListsRule& rule);

 private:
  void choose_clusters(const ListsRule& rule);
  // Appends the products of the nearest clusters to `found_`.
  void append_lists(const InvertedLists& lists);
  // Appends the centroids of a range to `nearest_`.
  void expand(const ByteVectors& centroids, std::size_t begin, std::size_t end, std::size_t next);

  const InvertedLists* lists_;
  ByteQuery query_;
  std::vector<float> scores_;
  std::vector<std::uint64_t> groups_, nearest_, spare_;  // keys of cosines; the last are the clusters to read
  std::vector<std::uint32_t> near_;
  std::vector<Scored> found_;
};

// The k nearest of those products for each of many vectors, best first, equal ones by label. Products whose byte in
// `allowed` is zero are left out (empty: none is).
std::vector<std::vector<Scored>> search_lists(const InvertedLists& lists, std::span<const float> vectors,
                                              const ListsRule& rule, std::size_t k,
                                              std::span<const std::uint8_t> allowed, unsigned n_threads);

// The nearest cluster of each vector, found in its `n_groups` nearest groups; `lists` needs no products.
std::vector<std::int32_t> assign_clusters(const InvertedLists& lists, const ByteVectors& vectors, std::size_t n_groups,
                                          unsigned n_threads);

// The nearest cluster of each vector among those near its own, as many as the rule says: linear in the number of
// vectors. They lie in the order of their clusters, which begin at `begins`; the first of these is `first`.
std::vector<std::int32_t> assign_near(const InvertedLists& lists, const ByteVectors& vectors,
                                      std::span<const std::int64_t> begins, std::size_t first, const ListsRule& rule,
                                      unsigned n_threads);

}  // namespace matchset
