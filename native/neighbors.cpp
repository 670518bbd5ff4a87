#include "neighbors.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "prefetch.hpp"

namespace matchset {

std::int64_t PastQueries::find(std::uint64_t hash) const {
  const auto found = std::lower_bound(hashes.begin(), hashes.end(), hash);
  if (found == hashes.end() || *found != hash) return -1;
  const std::int32_t query = by_hash[static_cast<std::size_t>(found - hashes.begin())];
  return query >= 0 && static_cast<std::size_t>(query) < size() ? query : -1;
}

void find_neighbors(const PastQueries& past, const NeighborsRule& rule, NeighborsScratch& s, Accumulator& sums) {
  read_lists(past.queries_of, rule.budget, 0, {}, s.lists, sums);
  s.nearest = take_best(sums, rule.n_neighbors, s.lists);
  for (const std::uint64_t near : s.nearest) prefetch_far(&past.products_of.offsets[document_of(near)]);
}

void prefetch_products(const PastQueries& past, const NeighborsScratch& s) {
  for (const std::uint64_t near : s.nearest) past.products_of.prefetch(document_of(near));
}

void collect_votes(const PastQueries& past, const NeighborsRule& rule, std::span<const std::uint8_t> allowed,
                   NeighborsScratch& s, Accumulator& votes) {
  float total = 0;
  std::size_t n_votes = 0;
  for (const std::uint64_t near : s.nearest) n_votes += past.products_of[document_of(near)].size();
  votes.reserve(std::min(n_votes, past.n_products));
  for (const std::uint64_t near : s.nearest) {
    const float similarity = score_of(near) / 255;
    float vote = similarity;
    for (unsigned i = 1; i < rule.power; ++i) vote *= similarity;  // unlike pow, the same on every machine
    const auto products = past.products_of[document_of(near)];
    for (const std::int32_t product : products)
      if (static_cast<std::size_t>(product) >= past.n_products)  // a negative one is huge
        throw std::invalid_argument("products must be below " + std::to_string(past.n_products) + "; got " +
                                    std::to_string(product));
    if (allowed.empty()) {
      votes.add(products, [&](std::size_t) { return vote; });
      for (std::size_t i = 0; i < products.size(); ++i) total += vote;
      continue;
    }
    for (const std::int32_t product : products) {
      if (!allowed[static_cast<std::size_t>(product)]) continue;
      votes.add(product, vote);
      total += vote;
    }
  }
  s.total = total;
}

}  // namespace matchset
