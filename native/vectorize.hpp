// Vectorize: which features does a query have, and with what weight?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "buffer.hpp"
#include "ngrams.hpp"
#include "strings.hpp"
#include "text.hpp"
#include "vocabulary.hpp"

namespace matchset {

// The features of one query, and the working memory to compute them; reused from query to query.
struct QueryFeatures {
  std::vector<std::uint32_t> ids;  // ascending
  std::vector<float> weights;      // scaled to unit length

  struct Probe {
    std::uint64_t key;
    std::uint32_t kind;
    std::uint32_t id = ~0U;  // of a known n-gram
    bool is_code = false;    // several words with a digit, such as a model number
  };
  struct Hit {
    std::uint32_t id;
    float idf;
  };
  TextScratch text;
  PaddedText padded;
  PaddedText analyzed;  // the stems of the words, if the vocabulary has stems
  std::vector<Probe> probes;
  std::vector<Hit> hits;
};

// Fills ids and weights from a raw text; both are empty if no n-gram of the text is known.
void vectorize(std::string_view text, const VocabularyView& vocabulary, QueryFeatures& features);

struct SparseRows {
  Buffer<std::int64_t> starts;  // (n + 1,)
  RawBuffer<std::int32_t> ids;
  RawBuffer<float> weights;
};
SparseRows vectorize_all(const StringsView& texts, const VocabularyView& vocabulary, unsigned n_threads);

// The words of texts, those that the vocabulary lacks too: of each text the keys, ascending.
struct WordRows {
  std::vector<std::int64_t> starts;  // (n + 1,)
  std::vector<std::uint64_t> keys;
  std::vector<std::int32_t> ids;  // feature of each word, -1 for none
  std::vector<float> counts;      // in the text
};
WordRows hash_words(const StringsView& texts, const VocabularyView& vocabulary, std::uint32_t kind);

// Number of texts in which each unknown id occurs.
std::vector<std::int64_t> count_unknown(const StringsView& texts, const VocabularyView& vocabulary, unsigned n_threads);

}  // namespace matchset
