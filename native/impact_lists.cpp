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

// Without a filter, what is read is known ahead.
void cut_lists(std::vector<ListsScratch::Cursor>& cursors, std::size_t budget) {
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    if (budget == 0) return cursors.resize(i);
    cursors[i].size = std::min(cursors[i].size, budget);
    budget -= cursors[i].size;
  }
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

void list_keys(const Accumulator& sums, std::vector<std::uint64_t>& keys) {
  keys.resize(sums.size());
  std::uint64_t* key = keys.data();
  sums.for_each([&](std::uint32_t document, float sum) { *key++ = to_key(sum, document); });
}

// How many entries of the first list may bring a document that no list before it has: those that, with the largest
// impacts of all further lists, may reach the sum of the n-th best document so far. Impacts descend.
std::size_t count_hopeful(const ImpactLists& index, std::span<const ListsScratch::Cursor> cursors, std::size_t n,
                          ListsScratch& scratch, const Accumulator& sums) {
  constexpr std::size_t kShort = 192;    // it takes longer to find out
  constexpr float kRounding = 0x1p-22F;  // of each sum: more than is lost
  const ListsScratch::Cursor& first = cursors.front();
  if (n == 0 || first.size < std::max(kShort, sums.size())) return first.size;
  float wanted = 0, further = 0;
  if (first.size >= n) wanted = first.weight * static_cast<float>(index.impacts[first.begin + n - 1]);
  if (sums.size() >= n) {
    list_keys(sums, scratch.best);
    wanted = std::max(wanted, score_of(cut_smallest(scratch.best, n, scratch.spare)));
  }
  for (const auto& cursor : cursors.subspan(1))
    further += cursor.weight * static_cast<float>(index.impacts[cursor.begin]);
  const float least = wanted * (1 - kRounding * static_cast<float>(scratch.cursors.size())) - further;
  const auto impacts = index.impacts.subspan(first.begin, first.size);
  const auto end = std::ranges::partition_point(
      impacts, [&](std::uint8_t impact) { return first.weight * static_cast<float>(impact) >= least; });
  return static_cast<std::size_t>(end - impacts.begin());
}

void read_allowed(const ImpactLists& index, std::size_t budget, std::span<const std::uint8_t> allowed,
                  std::span<const ListsScratch::Cursor> cursors, Accumulator& sums) {
  for (const auto& cursor : cursors) {
    if (budget == 0) return;
    const auto documents = index.lists.ids.subspan(cursor.begin, cursor.size);
    const std::uint8_t* impacts = index.impacts.data() + cursor.begin;
    check_below(documents, index.n_documents);
    for (std::size_t i = 0; i < documents.size() && budget > 0; ++i) {
      if (!allowed[static_cast<std::size_t>(documents[i])]) continue;
      sums.add(documents[i], cursor.weight * static_cast<float>(impacts[i]));
      --budget;
    }
  }
}

}  // namespace

void prefetch_offsets(const ImpactLists& index, std::span<const WeightedTerm> terms) {
  for (const WeightedTerm& term : terms)
    if (term.term < index.n_terms()) prefetch_far(&index.lists.offsets[term.term]);
}

void find_lists(const ImpactLists& index, std::span<const WeightedTerm> terms, std::size_t budget,
                std::span<const std::uint8_t> allowed, ListsScratch& scratch) {
  auto& cursors = scratch.cursors;
  cursors.clear();
  for (const WeightedTerm& term : terms) {
    if (term.term >= index.n_terms()) continue;
    const std::size_t size = index.lists[term.term].size();
    if (size > 0) cursors.push_back({index.lists.begin_of(term.term), size, term.weight});
  }
  std::sort(cursors.begin(), cursors.end(),
            [](const auto& a, const auto& b) { return a.size != b.size ? a.size < b.size : a.begin < b.begin; });
  if (allowed.empty()) cut_lists(cursors, budget);
  prefetch_lists(index, cursors, budget);
}

void read_lists(const ImpactLists& index, std::size_t budget, std::size_t n, std::span<const std::uint8_t> allowed,
                ListsScratch& scratch, Accumulator& sums) {
  std::size_t total = 0;
  for (const auto& cursor : scratch.cursors) total += cursor.size;
  sums.reserve(std::min(budget, total));
  if (!allowed.empty()) return read_allowed(index, budget, allowed, scratch.cursors, sums);
  for (std::size_t i = 0; i < scratch.cursors.size(); ++i) {
    const auto& cursor = scratch.cursors[i];
    const auto documents = index.lists.ids.subspan(cursor.begin, cursor.size);
    const std::uint8_t* impacts = index.impacts.data() + cursor.begin;
    check_below(documents, index.n_documents);
    const auto amount_of = [&](std::size_t at) { return cursor.weight * static_cast<float>(impacts[at]); };
    const bool is_first = sums.size() == 0;  // a list has no document twice
    const std::size_t n_hopeful = count_hopeful(index, std::span(scratch.cursors).subspan(i), n, scratch, sums);
    sums.add(documents.first(n_hopeful), amount_of);
    if (!is_first)
      sums.add_known(documents.subspan(n_hopeful), [&](std::size_t at) { return amount_of(n_hopeful + at); });
  }
}

std::span<const std::uint64_t> find_best(const Accumulator& sums, std::size_t n, ListsScratch& scratch) {
  list_keys(sums, scratch.best);
  keep_smallest(scratch.best, n, scratch.spare);
  return scratch.best;
}

std::span<const std::uint64_t> take_best(Accumulator& sums, std::size_t n, ListsScratch& scratch) {
  scratch.best.resize(sums.size());
  std::uint64_t* key = scratch.best.data();
  sums.drain([&](std::uint32_t document, float sum) { *key++ = to_key(sum, document); });
  keep_smallest(scratch.best, n, scratch.spare);
  return scratch.best;
}

}  // namespace matchset
