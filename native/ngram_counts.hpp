// Vocabulary: which n-grams are worth a feature?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ngrams.hpp"
#include "strings.hpp"

namespace matchset {

struct VocabularyRule {
  NGramKind kind;
  std::size_t limit;       // keep at most so many, the most frequent
  std::uint32_t min_df;    // in at least so many texts
};

struct CountedNGrams {
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> df;        // number of texts that have it
  OwnedStrings shown;                   // as people read them
  std::uint64_t n_distinct = 0;         // before limit and min_df
};

// Counts the n-grams of normalised texts, and keeps the most frequent of each kind in order of falling df, ties by the
// n-gram's bytes. Counters take about `budget` bytes: beyond that, texts are read again, each time for another range of
// hashes, with the same result.
std::vector<CountedNGrams> count_ngrams(const StringsView& normalized, std::span<const VocabularyRule> rules,
                                        std::size_t budget, unsigned n_threads);

}  // namespace matchset
