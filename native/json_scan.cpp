#include "json_scan.hpp"

#include <algorithm>

namespace matchset {

namespace {

// The place of the quote that ends a string, or the end of the text.
std::size_t find_quote(std::string_view text, std::size_t at) {
  while (at < text.size() && text[at] != '"') {
    at += text[at] == '\\' ? 2 : 1;
  }
  return std::min(at, text.size());
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

JsonSize scan_json(std::string_view text) {
  JsonSize size;
  std::size_t depth = 0;
  bool in_word = false;  // a number or a literal
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool was_in_word = in_word;
    in_word = false;
    if (c == '"') {
      const std::size_t end = find_quote(text, at + 1);
      size.longest = std::max(size.longest, end - at - 1);
      ++size.values;
      at = end;
    } else if (c == '[' || c == '{') {
      ++size.values;
      size.depth = std::max(size.depth, ++depth);
    } else if (c == ']' || c == '}') {
      depth -= depth > 0;
    } else if (c == ':') {  // what came before was a key
      ++size.keys;
      size.values -= size.values > 0;
    } else if (c != ',' && !is_space(c)) {
      in_word = true;
      size.values += !was_in_word;
    }
  }
  return size;
}

}  // namespace matchset
