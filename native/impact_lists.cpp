#include "impact_lists.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "prefetch.hpp"
#include "select.hpp"
#include "target_clones.hpp"

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

constexpr std::size_t kMostDocuments = std::size_t{1} << 31;

MATCHSET_CLONES bool are_below(const std::int32_t* documents, std::size_t n, std::uint32_t limit) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, static_cast<std::uint32_t>(documents[i]));
  return n == 0 || largest < limit;
}

void check_below(std::span<const std::int32_t> documents, std::size_t n_documents) {
  if (are_below(documents.data(), documents.size(), static_cast<std::uint32_t>(std::min(n_documents, kMostDocuments))))
    return;
  for (const std::int32_t document : documents)
    if (static_cast<std::size_t>(document) >= n_documents) refuse(document, n_documents);  // a negative one is huge
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
    if (budget == 0) return;
    const auto documents =
        index.lists.ids.subspan(cursor.begin, allowed.empty() ? std::min(cursor.size, budget) : cursor.size);
    const std::uint8_t* impacts = index.impacts.data() + cursor.begin;
    check_below(documents, index.n_documents);
    const auto amount_of = [&](std::size_t i) { return cursor.weight * static_cast<float>(impacts[i]); };
    if (allowed.empty()) {
      sums.add(documents, amount_of);
      budget -= documents.size();
      continue;
    }
    for (std::size_t i = 0; i < documents.size() && budget > 0; ++i) {
      if (!allowed[static_cast<std::size_t>(documents[i])]) continue;
      sums.add(documents[i], amount_of(i));
      --budget;
    }
  }
}

std::span<const std::uint64_t> take_best(const Accumulator& sums, std::size_t n, ListsScratch& scratch) {
  scratch.best.resize(sums.size());
  std::uint64_t* key = scratch.best.data();
  sums.for_each([&](std::uint32_t document, float sum) { *key++ = to_key(sum, document); });
  keep_smallest(scratch.best, n, scratch.spare);
  return scratch.best;
}

}  // namespace matchset
