#include "answers.hpp"

#include <charconv>
#include <cmath>
#include <stdexcept>

#include "unicode.hpp"

namespace matchset {
namespace {

void append(std::string_view text, std::vector<char>& out) { out.insert(out.end(), text.begin(), text.end()); }

bool is_plain(unsigned char byte) { return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\'; }

void append_escaped(unsigned char byte, std::vector<char>& out) {
  constexpr char kHex[] = "0123456789abcdef";
  if (byte == '"' || byte == '\\') {
    out.push_back('\\');
    out.push_back(static_cast<char>(byte));
  } else {
    append("\\u00", out);
    out.push_back(kHex[byte >> 4]);
    out.push_back(kHex[byte & 15]);
  }
}

// Bytes beyond ASCII that stand together.
void append_wide(std::string_view bytes, std::vector<char>& out) {
  static thread_local std::vector<char32_t> codes;
  codes.clear();
  decode_utf8(bytes, bytes.size(), codes);
  for (const char32_t code : codes) append_utf8(code, out);
}

void append_score(float score, std::vector<char>& out) {
  if (!std::isfinite(score)) return append("null", out);
  char digits[32];
  const auto written = std::to_chars(digits, digits + sizeof digits, score);
  append({digits, static_cast<std::size_t>(written.ptr - digits)}, out);
}

std::string_view text_at(const StringsView& texts, std::int32_t label) {
  if (label < 0 || static_cast<std::size_t>(label) + 1 >= texts.offsets.size())
    throw std::out_of_range("labels must be within the products");
  const std::int64_t begin = texts.offsets[static_cast<std::size_t>(label)];
  const std::int64_t end = texts.offsets[static_cast<std::size_t>(label) + 1];
  if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > texts.data.size())
    throw std::invalid_argument("string offsets must ascend inside the buffer");
  return {texts.data.data() + begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

void append_json(std::string_view text, std::vector<char>& out) {
  out.push_back('"');
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_plain(static_cast<unsigned char>(text[end]))) ++end;
    append(text.substr(at, end - at), out);
    if (end == text.size()) break;
    at = end;
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      append_escaped(static_cast<unsigned char>(text[at++]), out);
      continue;
    }
    while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80) ++end;
    append_wide(text.substr(at, end - at), out);
    at = end;
  }
  out.push_back('"');
}

void append_products(const StringsView& ids, const StringsView* titles, std::span<const std::int32_t> labels,
                     std::span<const float> scores, std::vector<char>& out) {
  if (labels.size() != scores.size()) throw std::invalid_argument("each label must have a score");
  out.push_back('[');
  for (std::size_t i = 0; i < labels.size(); ++i) {
    append(i == 0 ? "{\"id\":" : ",{\"id\":", out);
    append_json(text_at(ids, labels[i]), out);
    append(",\"score\":", out);
    append_score(scores[i], out);
    if (titles != nullptr) {
      append(",\"title\":", out);
      append_json(text_at(*titles, labels[i]), out);
    }
    out.push_back('}');
  }
  out.push_back(']');
}

}  // namespace matchset
