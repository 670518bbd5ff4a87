#include "impact_lists.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "prefetch.hpp"
#include "select.hpp"

namespace matchset {
namespace {

[[noreturn]] void refuse(std::int32_t document, std::size_t n_documents) {
  throw std::invalid_argument("documents must be below " + std::to_string(n_documents) + "; got " +
                              std::to_string(document));
}

// The lists of terms, shortest first.
void find_lists(const ImpactLists& index, std::span<const WeightedTerm> terms,
                std::vector<ListsScratch::Cursor>& cursors) {
  cursors.clear();
  for (const WeightedTerm& term : terms)
    if (term.term < index.n_terms()) prefetch_far(&index.lists.offsets[term.term]);
  for (const WeightedTerm& term : terms) {
    if (term.term >= index.n_terms()) continue;
    const std::size_t size = index.lists[term.term].size();
    if (size > 0) cursors.push_back({index.lists.begin_of(term.term), size, term.weight});
  }
  std::sort(cursors.begin(), cursors.end(),
            [](const auto& a, const auto& b) { return a.size != b.size ? a.size < b.size : a.begin < b.begin; });
}

// Asks for what is read without a filter: lists lie anywhere in memory, and most of them are short.
void prefetch_lists(const ImpactLists& index, std::span<const ListsScratch::Cursor> cursors, std::size_t budget) {
  constexpr std::size_t kLine = 64;
  for (const auto& cursor : cursors) {
    const std::size_t n = std::min(cursor.size, budget);
    const std::int32_t* documents = index.lists.ids.data() + cursor.begin;
    const std::uint8_t* impacts = index.impacts.data() + cursor.begin;
    for (std::size_t i = 0; i < n; i += kLine / sizeof(std::int32_t)) prefetch_far(documents + i);
    for (std::size_t i = 0; i < n; i += kLine) prefetch_far(impacts + i);
    budget -= n;
  }
}

}  // namespace

void read_lists(const ImpactLists& index, std::span<const WeightedTerm> terms, std::size_t budget,
                std::span<const std::uint8_t> allowed, ListsScratch& scratch, Accumulator& sums) {
  find_lists(index, terms, scratch.cursors);
  prefetch_lists(index, scratch.cursors, budget);
  std::size_t total = 0;
  for (const auto& cursor : scratch.cursors) total += cursor.size;
  sums.reserve(std::min(budget, total));
  for (const auto& cursor : scratch.cursors) {
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
