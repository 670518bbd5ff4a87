// Lexical index: which titles share words with a query, and how strongly?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "impact_lists.hpp"
#include "prefetch.hpp"

namespace matchset {

// BM25 over the words of titles. An impact is a word's part of a title's score, as a share of the largest one in
// the index, in 255 steps: a query's score is `scale` times the sum of the impacts of its words.
struct LexicalIndex {
  ImpactLists titles_of;                  // words x titles
  ListsView words_of;                     // rows x words, ascending; titles that are alike lie side by side
  std::span<const std::uint8_t> impacts;  // of each entry of words_of
  std::span<const std::int32_t> row_of;   // of each title, in words_of
  float scale = 1;

  // The row of a title; beyond the end where a damaged array says so.
  std::size_t find_row(std::size_t title) const { return static_cast<std::size_t>(row_of[title]); }
  // Ask for a title ahead of its use: where its row is, where its words are, the words.
  void prefetch_row(std::size_t title) const { prefetch_far(&row_of[title]); }
  void prefetch_offset(std::size_t title) const {
    if (const std::size_t row = find_row(title); row < words_of.size()) prefetch_far(&words_of.offsets[row]);
  }
  void prefetch_words(std::size_t title) const {
    const std::size_t row = find_row(title);
    if (row >= words_of.size()) return;
    const auto begin = static_cast<std::size_t>(words_of.offsets[row]);
    if (begin >= impacts.size()) return;
    prefetch_far(words_of.ids.data() + begin);
    prefetch_far(words_of.ids.data() + begin + 16);
    prefetch_far(impacts.data() + begin);
  }
};

// A query's words, as candidates are compared with them: all at once where they are few, or by a table of hashes, which
// two words rarely share a slot of.
class QueryWords {
 public:
  QueryWords() : slots_(kSlots, kNone) {}
  // Their weights do not count.
  void assign(std::span<const WeightedTerm> words);
  // The score of one title, and which of the words it has: bit i stands for the i-th of the first 64.
  struct Found {
    float score;
    std::uint64_t words;
  };
  Found find(const LexicalIndex& index, std::size_t title) const;
  bool empty() const { return words_.empty(); }

 private:
  static constexpr std::size_t kSlots = 512, kFewWords = 16;
  static constexpr std::uint32_t kNone = ~0U;
  static std::uint32_t slot_of(std::uint32_t word) { return word * 0x9E3779B1U >> 23; }
  static std::uint64_t bit_of(std::size_t i) { return i < 64 ? std::uint64_t{1} << i : 0; }
  struct Sum {
    std::uint32_t impacts;
    std::uint64_t words;
  };
  Sum add_impacts(std::span<const std::int32_t> words, const std::uint8_t* impacts) const;

  std::vector<std::uint32_t> words_, slots_;
  std::vector<std::uint64_t> bits_ = std::vector<std::uint64_t>(kSlots);  // of the word in each slot
  std::vector<std::uint16_t> used_;
  bool is_exact_ = true;  // no two words share a slot
};

}  // namespace matchset
