// N-gram counts: which n-grams should be features?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "buffer.hpp"
#include "ngrams.hpp"
#include "strings.hpp"

namespace matchset {

struct VocabularyRule {
  NGramKind kind;
  std::size_t limit;     // most n-grams to keep; the most frequent are kept
  std::uint32_t min_df;  // least number of texts that have it
};

struct CountedNGrams {
  Buffer<std::uint64_t> keys;
  Buffer<std::uint32_t> df;       // number of texts that have it
  OwnedStrings names;             // with spaces
  Buffer<std::uint8_t> is_shown;  // whether a text that may be shown has it
  std::uint64_t n_distinct = 0;   // before limit and min_df
};

// Counts the n-grams of normalized texts, those of words in `analyzed` (the same texts, of stems), and keeps the most
// frequent of each kind by descending df, ties by the n-gram's bytes; `by_key`: in the order of their keys. Counters
// take about `budget` bytes; if more are needed, the texts are read several times, each time for another range of
// hashes, with the same result. `is_shown` marks the texts that may be shown to people; empty: all.
std::vector<CountedNGrams> count_ngrams(const StringsView& normalized, const StringsView& analyzed,
                                        std::span<const std::uint8_t> is_shown, std::span<const VocabularyRule> rules,
                                        std::size_t budget, unsigned n_threads, bool by_key);

}  // namespace matchset
