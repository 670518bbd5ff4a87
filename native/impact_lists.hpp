// Impact lists: an inverted index that is read with bounded work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "csr.hpp"
#include "document_table.hpp"

namespace matchset {

// For each term the documents that have it, with an impact from 1 to 255, the largest impacts first.
//
// Arrays may be memory-mapped and damaged: offsets and documents are checked when touched.
struct ImpactLists {
  ListsView lists;
  std::span<const std::uint8_t> impacts;  // of each entry
  std::size_t n_documents = 0;

  std::size_t n_terms() const { return lists.size(); }
};

struct WeightedTerm {
  std::uint32_t term;
  float weight;
};

// Memory of one reading, reused from query to query.
struct ListsScratch {
  struct Cursor {
    std::size_t begin, size;
    float weight;
  };
  std::vector<Cursor> cursors;
  std::vector<std::uint64_t> best, spare;  // keys
};

// Reading goes in three steps, so that there is other work to do while memory is on its way: ask where the lists of
// some terms begin, find them and ask for what they hold, read them.
//
// Of the shortest list first, `budget` entries are read in all: rare terms tell documents apart, and cost little. Of
// the list in which the budget ends, the entries of the largest impacts count. Documents whose byte in `allowed` is
// zero are passed over (empty: none are), and entries of them cost nothing of the budget.
void prefetch_offsets(const ImpactLists& index, std::span<const WeightedTerm> terms);
void find_lists(const ImpactLists& index, std::span<const WeightedTerm> terms, std::size_t budget,
                std::span<const std::uint8_t> allowed, ListsScratch& scratch);
// Adds weight * impact over the lists that were found. Where only the n best documents are wanted, others may be left
// out (0: all are wanted); weights must be positive.
void read_lists(const ImpactLists& index, std::size_t budget, std::size_t n, std::span<const std::uint8_t> allowed,
                ListsScratch& scratch, Accumulator& sums);

// Keys (see `to_key`) of the n best documents, best first.
std::span<const std::uint64_t> find_best(const Accumulator& sums, std::size_t n, ListsScratch& scratch);
// The same, and no sums are left.
std::span<const std::uint64_t> take_best(Accumulator& sums, std::size_t n, ListsScratch& scratch);

}  // namespace matchset
