// Stems: which words of a text count, and as which word?
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ngrams.hpp"
#include "strings.hpp"

namespace matchset {

// The stem of one word: its first bytes, then a suffix. A stop word keeps none and has the empty suffix. Slots lie
// as those of a vocabulary do. No word is spelled out: a rare one may be personal data.
struct StemSlot {
  std::uint64_t key;
  std::uint32_t n_kept;
  std::uint32_t suffix;
};
static_assert(sizeof(StemSlot) == 16);

// Appends the stem of a word to `out`; nothing for a stop word.
using StemUnknown = std::function<void(std::string_view word, std::vector<char>& out)>;

// Known words over borrowed arrays, which may be memory-mapped and damaged: no value in them is trusted.
struct StemsView {
  std::span<const StemSlot> slots;
  std::uint64_t n_homes = 1;
  StringsView suffixes;
  bool splits_unspaced = false;  // words of scripts without spaces become pairs of characters
  StemUnknown stem_unknown;      // for words without a slot; empty: they stay as they are

  const StemSlot* find(std::string_view word) const;
};

std::uint64_t word_key(std::string_view word);


// Writes the stems of a normalized text, one space between them. A text of stop words alone stays as it is.
void append_stems(std::string_view normalized, const StemsView& stems, std::vector<char>& out);

// The same for many texts, in order.
OwnedStrings stem_all(const StringsView& normalized, const StemsView& stems, unsigned n_threads);

// Distinct words of texts, in the order in which they first occur.
OwnedStrings list_words(const StringsView& normalized);

}  // namespace matchset
