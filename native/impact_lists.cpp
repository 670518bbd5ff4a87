#include "impact_lists.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "select.hpp"

namespace matchset {
namespace {

[[noreturn]] void refuse(std::int32_t document, std::size_t n_documents) {
  throw std::invalid_argument("documents must be below " + std::to_string(n_documents) + "; got " +
                              std::to_string(document));
}

}  // namespace

void read_lists(const ImpactLists& index, std::span<const WeightedTerm> terms, std::size_t budget,
                std::span<const std::uint8_t> allowed, ListsScratch& scratch, Accumulator& sums) {
  auto& cursors = scratch.cursors;
  cursors.clear();
  for (const WeightedTerm& term : terms) {
    if (term.term >= index.n_terms()) continue;
    const std::size_t size = index.lists[term.term].size();
    if (size > 0) cursors.push_back({index.lists.begin_of(term.term), size, term.weight});
  }
  std::sort(cursors.begin(), cursors.end(),
            [](const auto& a, const auto& b) { return a.size != b.size ? a.size < b.size : a.begin < b.begin; });
  std::size_t total = 0;
  for (const auto& cursor : cursors) {
    __builtin_prefetch(index.lists.ids.data() + cursor.begin);
    __builtin_prefetch(index.impacts.data() + cursor.begin);
    total += cursor.size;
  }
  sums.reserve(std::min(budget, total));
  for (const auto& cursor : cursors) {
    const std::int32_t* documents = index.lists.ids.data() + cursor.begin;
    const std::uint8_t* impacts = index.impacts.data() + cursor.begin;
    for (std::size_t i = 0; i < cursor.size && budget > 0; ++i) {
      const auto document = static_cast<std::size_t>(documents[i]);  // a negative one is huge
      if (document >= index.n_documents) refuse(documents[i], index.n_documents);
      if (!allowed.empty() && !allowed[document]) continue;
      sums.add(static_cast<std::uint32_t>(document), cursor.weight * static_cast<float>(impacts[i]));
      --budget;
    }
  }
}

std::span<const std::uint64_t> take_best(const Accumulator& sums, std::size_t n, ListsScratch& scratch) {
  scratch.best.clear();
  sums.for_each([&](std::uint32_t document, float sum) { scratch.best.push_back(to_key(sum, document)); });
  keep_smallest(scratch.best, n, scratch.spare);
  return scratch.best;
}

}  // namespace matchset
