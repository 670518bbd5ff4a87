// Lexical index: which titles share words with a query, and how strongly?
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "impact_lists.hpp"

namespace matchset {

// BM25 over the words of titles. An impact is a word's part of a title's score, as a share of the largest one in
// the index, in 255 steps: a query's score is `scale` times the sum of the impacts of its words.
struct LexicalIndex {
  ImpactLists titles_of;                  // words x titles
  ListsView words_of;                     // titles x words, ascending
  std::span<const std::uint8_t> impacts;  // of each entry of words_of
  float scale = 1;
};

// A query's words, as candidates are compared with them: most words of a title miss a filter of 512 bits.
class QueryWords {
 public:
  void assign(std::span<const WeightedTerm> words);
  // The score of one title.
  float score(const LexicalIndex& index, std::size_t title) const;
  bool empty() const { return words_.empty(); }
  std::span<const WeightedTerm> words() const { return words_; }

 private:
  static std::uint32_t bit_of(std::uint32_t word) { return word * 0x9E3779B1U >> 23; }

  std::vector<WeightedTerm> words_;
  std::array<std::uint64_t, 8> filter_{};
};

}  // namespace matchset
