#include "markup.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <utility>

#include "unicode.hpp"

namespace matchset {
namespace {

constexpr int kRounds = 2;              // entities may hide tags, and be hidden themselves: "&amp;nbsp;"
constexpr std::size_t kMaxEntity = 10;  // "&thetasym;" without its ends, "#x10FFFF"

struct Entity {
  std::string_view name;
  char32_t code;
};
constexpr Entity kEntities[] = {
#include "entities.inc"
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The code point of an entity without "&" and ";"; 0 if there is none.
char32_t decode(std::string_view name) {
  if (!name.starts_with('#')) {
    const auto* found =
        std::lower_bound(std::begin(kEntities), std::end(kEntities), name,
                         [](const Entity& entity, std::string_view wanted) { return entity.name < wanted; });
    return found != std::end(kEntities) && found->name == name ? found->code : 0;
  }
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x') || name.starts_with('X');
  if (is_hex) name.remove_prefix(1);
  char32_t code = 0;
  for (const char c : name) {
    const int digit = c >= '0' && c <= '9'                        ? c - '0'
                      : is_hex && is_letter(c) && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                  : -1;
    if (digit < 0 || code > 0x10FFFF) return 0;
    code = code * (is_hex ? 16 : 10) + static_cast<char32_t>(digit);
  }
  return code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF) ? 0 : code;
}

// Length of the tag at the beginning of a text; 0 if there is none.
std::size_t tag_length(std::string_view text) {
  const std::size_t name = text.substr(1).starts_with('/') ? 2 : 1;
  if (name >= text.size() || !is_letter(text[name])) return 0;
  const std::size_t end = text.find_first_of("<>", name);
  return end != std::string_view::npos && text[end] == '>' ? end + 1 : 0;
}

// Length and code point of the entity at the beginning of a text; 0 if there is none.
std::pair<std::size_t, char32_t> read_entity(std::string_view text) {
  const std::size_t end = text.substr(0, kMaxEntity + 2).find(';');
  if (end == std::string_view::npos) return {0, 0};
  const char32_t code = decode(text.substr(1, end - 1));
  return {code == 0 ? 0 : end + 1, code};
}

// One pass over the text; returns whether something was replaced. A tag becomes a space.
bool clean_once(std::string_view text, std::vector<char>& out) {
  out.clear();
  bool is_changed = false;
  while (!text.empty()) {
    std::size_t n = std::min(text.find_first_of("<&"), text.size());
    out.insert(out.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
    text.remove_prefix(n);
    if (text.empty()) break;
    char32_t code = ' ';
    if (text[0] == '<')
      n = tag_length(text);
    else
      std::tie(n, code) = read_entity(text);
    if (n == 0) {
      out.push_back(text[0]);
      n = 1;
    } else {
      append_utf8(code < 32 || code == 0xA0 ? U' ' : code, out);
      is_changed = true;
    }
    text.remove_prefix(n);
  }
  return is_changed;
}

void trim_spaces(std::vector<char>& text) {
  std::size_t n = 0;
  for (const char c : text)
    if (c != ' ' || (n > 0 && text[n - 1] != ' ')) text[n++] = c;
  if (n > 0 && text[n - 1] == ' ') --n;
  text.resize(n);
}

}  // namespace

bool clean_markup(std::string_view text, std::vector<char>& out) {
  if (!clean_once(text, out)) return false;
  std::vector<char> before;
  for (int round = 1; round <= kRounds; ++round) {
    before.swap(out);
    if (!clean_once({before.data(), before.size()}, out)) break;
  }
  trim_spaces(out);
  return true;
}

OwnedStrings clean_all(const StringsView& texts) {
  OwnedStrings cleaned;
  std::vector<char> text;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool is_changed = may_have_markup(texts[i]) && clean_markup(texts[i], text);
    cleaned.append(is_changed ? std::string_view(text.data(), text.size()) : texts[i]);
  }
  return cleaned;
}

}  // namespace matchset
