// Text: which queries are the same query?
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "strings.hpp"

namespace matchset {

// Longer texts are cut to their first kMaxChars characters, and so is the normalized text.
inline constexpr std::size_t kMaxChars = 4096;
inline constexpr std::size_t kMaxBytes = 4 * kMaxChars;

// Reused between texts, so that normalizing allocates nothing after the first few.
struct TextScratch {
  std::vector<char32_t> codes, more_codes;
  std::vector<unsigned char> kinds;
  std::vector<char> cleaned;
};

// Appends the normalized text to `out`: words with one space between them. matchset/text.py states the rules.
void normalize(std::string_view text, TextScratch& scratch, std::vector<char>& out);

OwnedStrings normalize_all(const StringsView& texts, unsigned n_threads);

}  // namespace matchset
