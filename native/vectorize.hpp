// Vectorize: which features does a query have, and with what weight?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ngrams.hpp"
#include "strings.hpp"
#include "text.hpp"

namespace matchset {

// One known n-gram. Slots lie in ascending order of key, each at or after its home; free ones hold kFreeKey.
struct Slot {
  std::uint64_t key;
  std::uint32_t id;
  float idf;
};
static_assert(sizeof(Slot) == 16);
inline constexpr std::uint64_t kFreeKey = ~std::uint64_t{0};

std::uint64_t ngram_key(std::string_view ngram, NGramKind kind);

// Lays n-grams out as a hash table; the layout depends on the keys alone.
std::vector<Slot> lay_out_slots(std::span<const std::uint64_t> keys, std::span<const float> idf, std::uint64_t n_homes);

// A vocabulary over borrowed arrays, which may be memory-mapped and damaged: no value in them is trusted.
struct VocabularyView {
  std::span<const Slot> slots;
  std::uint64_t n_homes = 1;
  std::vector<NGramKind> kinds;
  std::uint32_t n_known = 0;              // ids below are known n-grams; then come the unknown ids, kind by kind
  std::uint32_t n_buckets = 0;            // unknown ids per kind
  std::span<const float> unknown_idf;     // 0 where training saw none: such ids are silent, (kinds x buckets,)

  std::uint32_t n_features() const { return n_known + static_cast<std::uint32_t>(unknown_idf.size()); }
  // The slot of a key, or nullptr.
  const Slot* find(std::uint64_t key) const;
};

// The features of one query, and all that computing them needs; reused from query to query.
struct QueryFeatures {
  std::vector<std::uint32_t> ids;  // ascending
  std::vector<float> weights;      // of unit length together

  struct Probe {
    std::uint64_t key;
    std::uint32_t kind;
  };
  struct Hit {
    std::uint32_t id;
    float idf;
  };
  TextScratch text;
  PaddedText padded;
  std::vector<Probe> probes;
  std::vector<Hit> hits;
};

// Fills ids and weights from a raw text; both are empty where no n-gram of the text is known.
void vectorize(std::string_view text, const VocabularyView& vocabulary, QueryFeatures& features);

struct SparseRows {
  std::vector<std::int64_t> starts;  // (n + 1,)
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};
SparseRows vectorize_all(const StringsView& texts, const VocabularyView& vocabulary, unsigned n_threads);

// In how many texts does each unknown id occur?
std::vector<std::int64_t> count_unknown(const StringsView& texts, const VocabularyView& vocabulary, unsigned n_threads);

}  // namespace matchset
