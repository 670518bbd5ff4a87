// Query neighbors: what answered the past queries that are most like this one?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "impact_lists.hpp"

namespace matchset {

// Past queries and the products that they led to. An impact is a feature's weight in a past query, which has unit
// length, in 255 steps.
struct PastQueries {
  ImpactLists queries_of;                 // features x past queries
  ListsView products_of;                  // past queries x products
  std::span<const float> counts;          // of each entry of products_of: how often the query led there
  std::span<const std::uint64_t> hashes;  // of the past queries' texts, ascending
  std::span<const std::int32_t> by_hash;  // past query of each hash
  std::size_t n_products = 0;

  std::size_t size() const { return products_of.size(); }
  // The past query with this hash, or -1.
  std::int64_t find(std::uint64_t hash) const;
};

struct NeighborsRule {
  std::size_t budget;       // entries of lists to read at most
  std::size_t n_neighbors;  // past queries that vote
  unsigned power = 3;       // of their similarity: a larger one leaves more to the nearest
};

struct NeighborsScratch {
  ListsScratch lists;
  std::span<const std::uint64_t> nearest;  // keys of the past queries that vote
  float total = 0;                         // of all votes
};

// The nearest past queries, of those in the lists that were found (see impact_lists.hpp).
//
// `sums` is memory for similarities: empty before and after.
void find_neighbors(const PastQueries& past, const NeighborsRule& rule, NeighborsScratch& scratch, Accumulator& sums);
// Asks for the products of the nearest past queries, whose offsets should be at hand.
void prefetch_products(const PastQueries& past, const NeighborsScratch& scratch);
// Votes for the products of the nearest past queries, by product: each gives its similarity, to a power, to
// all of its products. Products whose byte in `allowed` is zero get none (empty: all may).
void collect_votes(const PastQueries& past, const NeighborsRule& rule, std::span<const std::uint8_t> allowed,
                   NeighborsScratch& scratch, Accumulator& votes);

}  // namespace matchset
