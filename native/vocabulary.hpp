// Vocabulary: which feature is an n-gram, and how much does it weigh?
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hash.hpp"
#include "ngrams.hpp"
#include "stems.hpp"

namespace matchset {

// One known n-gram. Slots lie in ascending order of key, each at or after its home; free ones hold kFreeKey.
struct Slot {
  std::uint64_t key;
  std::uint32_t id;
  float idf;
};
static_assert(sizeof(Slot) == 16);
inline constexpr std::uint64_t kFreeKey = ~std::uint64_t{0};

inline std::uint64_t ngram_key(std::string_view ngram, NGramKind kind) {
  const std::uint64_t hash = hash_bytes(ngram, kind.seed());
  return hash == kFreeKey ? 0 : hash;
}

// The preferred slot of a key. It grows with the key, and the number of homes need not be a power of two.
inline std::uint64_t home_of(std::uint64_t key, std::uint64_t n_homes) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(key) * n_homes >> 64);
}

// Lays n-grams out as a hash table; the layout depends on the keys alone.
std::vector<Slot> lay_out_slots(std::span<const std::uint64_t> keys, std::span<const float> idf, std::uint64_t n_homes,
                                unsigned n_threads);

// A vocabulary over borrowed arrays, which may be memory-mapped and damaged: no value in them is trusted.
struct VocabularyView {
  std::span<const Slot> slots;
  std::uint64_t n_homes = 1;
  std::vector<NGramKind> kinds;
  std::uint32_t n_known = 0;           // ids below are known n-grams; the unknown ids follow, kind by kind
  std::uint32_t n_buckets = 0;         // unknown ids per kind
  std::span<const float> unknown_idf;  // 0 for an id that training never saw: it is ignored, (kinds x buckets,)
  std::optional<StemsView> stems;      // of which word n-grams are made; without: of the words as they are

  std::uint32_t n_features() const { return n_known + static_cast<std::uint32_t>(unknown_idf.size()); }
  // The slot of a key, or nullptr.
  const Slot* find(std::uint64_t key) const {
    for (std::uint64_t at = home_of(key, n_homes); at < slots.size() && slots[at].key <= key; ++at)
      if (slots[at].key == key) return slots[at].id < n_known ? &slots[at] : nullptr;
    return nullptr;
  }
};

}  // namespace matchset
