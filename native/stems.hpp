// Stems: which words of a text count, and as which word?
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "strings.hpp"
#include "text.hpp"

namespace matchset {

// The stem of one word: its first bytes, then a suffix. A stop word keeps none and has the empty suffix. Slots lie
// as those of a vocabulary do. No word is spelled out: a rare one may be personal data.
struct StemSlot {
  std::uint64_t key;
  std::uint32_t n_kept;
  std::uint32_t suffix;
};
static_assert(sizeof(StemSlot) == 16);

// Longer suffixes are not stored: such words are stemmed when asked.
inline constexpr std::size_t kMaxSuffix = 64;
// A suffix of a word that no shown text has is at most this long, and one that a word of a shown text has too.
inline constexpr std::size_t kMaxHiddenSuffix = 3;
// An analyzed text is cut at the word that would make it longer: a character with its pair takes up to 15 bytes.
inline constexpr std::size_t kMaxAnalyzed = 15 * kMaxChars;

// Appends the stem of a word to `out`; nothing for a stop word.
using StemUnknown = std::function<void(std::string_view word, std::vector<char>& out)>;

// Known words over borrowed arrays, which may be memory-mapped and damaged: no value in them is trusted.
struct StemsView {
  std::span<const StemSlot> slots;
  std::uint64_t n_homes = 1;
  StringsView suffixes;      // each of at most kMaxSuffix bytes
  StemUnknown stem_unknown;  // for words without a slot; empty: they stay as they are

  const StemSlot* find(std::string_view word) const;
};

struct StemTable {
  std::vector<StemSlot> slots;
  OwnedStrings suffixes;
};

// Lays words and their stems out as a table. What it holds of words that are not `is_shown` gives none of them away.
StemTable lay_out_stems(const StringsView& words, const StringsView& stems, std::span<const std::uint8_t> is_shown,
                        std::uint64_t n_homes);

// Writes the stems of a normalized text, one space between them; numbers and units are words of their own, and so are
// pairs of characters of a script without spaces. A text of stop words alone stays as it is. At the end stand the
// single characters of Chinese and Japanese pairs, two spaces before each.
void append_stems(std::string_view normalized, const StemsView& stems, std::vector<char>& out);

// The same for many texts, in order.
OwnedStrings stem_all(const StringsView& normalized, const StemsView& stems, unsigned n_threads);

// Distinct words of texts, numbers and units apart, in the order in which they first occur; runs of a script without
// spaces are left out: their pairs of characters have no stems.
struct WordList {
  OwnedStrings words;
  std::vector<std::uint8_t> is_shown;  // whether a text that may be shown has it
};
WordList list_words(const StringsView& normalized, std::span<const std::uint8_t> is_shown, unsigned n_threads);

// Distinct words between spaces, and which of them each text has.
struct NumberedWords {
  WordList distinct;
  Buffer<std::int64_t> offsets;   // of the words of each text, (n + 1,)
  RawBuffer<std::int32_t> words;  // in the order of the texts
};
NumberedWords number_words(const StringsView& normalized, std::span<const std::uint8_t> is_shown, unsigned n_threads);

struct WordCounts {
  std::int64_t n_words = 0;
  std::int64_t n_unspaced = 0;       // of a script that is written without spaces: Thai, Chinese, Japanese and others
  std::vector<std::int64_t> counts;  // of each of the wanted words, and of the words with a wanted "-ending"
};
WordCounts count_words(const StringsView& normalized, const StringsView& wanted, unsigned n_threads);

}  // namespace matchset
