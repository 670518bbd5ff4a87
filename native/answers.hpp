// Answers: products as the JSON that a server sends.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "strings.hpp"

namespace matchset {

// Appends a text in quotes; what JSON wants escaped is, and every byte that is no UTF-8 becomes U+FFFD.
void append_json(std::string_view text, std::vector<char>& out);

// Appends `[{"id":"...","score":0.5,"title":"..."}, ...]`, without titles where there are none; a score is the
// shortest number that reads back as the same float. Throws where a label is outside: files may be damaged.
void append_products(const StringsView& ids, const StringsView* titles, std::span<const std::int32_t> labels,
                     std::span<const float> scores, std::vector<char>& out);

}  // namespace matchset
