// Markup: what does a text with HTML tags and entities say?
#pragma once

#include <string_view>
#include <vector>

#include "strings.hpp"

namespace matchset {

inline bool may_have_markup(std::string_view text) { return text.find_first_of("<&") != std::string_view::npos; }

// Writes a text without HTML tags, its entities decoded and one space between words, over `out`. Returns false, and
// leaves `out` undefined, if the text has neither.
bool clean_markup(std::string_view text, std::vector<char>& out);

// The same for many texts; those without markup stay as they are.
OwnedStrings clean_all(const StringsView& texts);

}  // namespace matchset
