// Answers: products as the JSON that a server sends.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "strings.hpp"

namespace matchset {

// Memory to write an answer into, and to find its texts; kept from one answer to the next.
struct JsonScratch {
  std::vector<std::string_view> ids, titles;
  std::vector<char32_t> codes;
  std::vector<char> utf8, out;
};

// `[{"id":"...","score":0.5,"title":"..."}, ...]`, without titles where there are none. What JSON wants escaped is,
// every byte that is no UTF-8 becomes U+FFFD, and a score is the shortest number that reads back as the same float.
// Throws where a label is outside: files may be damaged. The text lies in `scratch`.
std::string_view write_products(const StringsView& ids, const StringsView* titles, std::span<const std::int32_t> labels,
                                std::span<const float> scores, JsonScratch& scratch);

}  // namespace matchset
