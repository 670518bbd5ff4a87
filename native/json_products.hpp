// JSON: how are found products written for the server's response?
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "strings.hpp"

namespace matchset {

// Memory for one response, reused for the next.
struct JsonScratch {
  std::vector<std::string_view> ids, titles;
  std::vector<char32_t> codes;
  std::vector<char> utf8, out;
};

// `[{"id":"...","score":0.5,"title":"..."}, ...]`, without titles if there are none. Strings are escaped as JSON
// requires, bytes that are not UTF-8 become U+FFFD, and a score is the shortest number that reads back as the same
// float. Throws if a label is out of range, because files may be damaged. The result is a view into `scratch`.
std::string_view write_products(const StringsView& ids, const StringsView* titles, std::span<const std::int32_t> labels,
                                std::span<const float> scores, JsonScratch& scratch);

// The body of a response: `head`, then `"query":"...","microseconds":43,"products":[...]}`, under the same rules.
std::string_view write_answer(std::string_view head, std::string_view query, std::int64_t microseconds,
                              const StringsView& ids, const StringsView* titles, std::span<const std::int32_t> labels,
                              std::span<const float> scores, JsonScratch& scratch);

// `["...", ...]`: the ids alone, under the same rules.
std::string_view write_ids(const StringsView& ids, std::span<const std::int32_t> labels, JsonScratch& scratch);

}  // namespace matchset
