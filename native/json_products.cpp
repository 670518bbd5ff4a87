#include "json_products.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "prefetch.hpp"
#include "unicode.hpp"

namespace matchset {
namespace {

constexpr std::size_t kLine = 64;              // bytes of a cache line
constexpr std::size_t kMaxPrefetched = 4;      // lines of a text; few titles are longer
constexpr std::size_t kBlock = 8, kWide = 16;  // bytes examined together
constexpr std::size_t kWidest = 6;             // bytes that one byte may become: \u001f
constexpr std::size_t kAround = 96;            // at most as many bytes around the texts of a product, with a block

bool is_plain(unsigned char byte) { return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\'; }

char* put(std::string_view text, char* out) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

char* put_escaped(unsigned char byte, char* out) {
  constexpr char kHex[] = "0123456789abcdef";
  *out++ = '\\';
  if (byte == '"' || byte == '\\') {
    *out++ = static_cast<char>(byte);
    return out;
  }
  out = put("u00", out);
  *out++ = kHex[byte >> 4];
  *out++ = kHex[byte & 15];
  return out;
}

// Writes a run of bytes beyond ASCII.
char* put_non_ascii(std::string_view bytes, JsonScratch& scratch, char* out) {
  scratch.codes.clear();
  scratch.utf8.clear();
  decode_utf8(bytes, bytes.size(), scratch.codes);
  for (const char32_t code : scratch.codes) append_utf8(code, scratch.utf8);
  return put({scratch.utf8.data(), scratch.utf8.size()}, out);
}

// Whether each of eight bytes stands for itself.
bool are_plain(std::uint64_t bytes) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kHigh = 0x80 * kOnes;
  const auto mark_zeros = [](std::uint64_t x) { return (x - kOnes) & ~x; };
  const std::uint64_t low = (bytes - 0x20 * kOnes) & ~bytes;
  const std::uint64_t others = mark_zeros(bytes ^ '"' * kOnes) | mark_zeros(bytes ^ '\\' * kOnes);
  return ((bytes | low | others) & kHigh) == 0;
}

bool copy_block(const char* text, char* out) {
  std::uint64_t bytes;
  std::memcpy(&bytes, text, kBlock);
  std::memcpy(out, &bytes, kBlock);
  return are_plain(bytes);
}

// The same of sixteen bytes; those beyond ASCII are negative.
bool copy_wide(const char* text, char* out) {
  using Bytes = std::int8_t __attribute__((vector_size(kWide)));
  Bytes bytes;
  std::memcpy(&bytes, text, kWide);
  std::memcpy(out, &bytes, kWide);
  const Bytes is_special = (bytes < 0x20) | (bytes == '"') | (bytes == '\\');
  std::uint64_t words[2];
  std::memcpy(words, &is_special, kWide);
  return (words[0] | words[1]) == 0;
}

// Copies the bytes up to the first that needs an escape, perhaps some more, and returns their number.
std::size_t copy_plain(std::string_view text, char* out) {
  const std::size_t size = text.size();
  std::size_t at = 0;
  while (at + kWide <= size && copy_wide(text.data() + at, out + at)) at += kWide;
  while (at + kBlock <= size && copy_block(text.data() + at, out + at)) at += kBlock;
  // The last bytes together with some before them: one by one, they would take longer than all others.
  if (at + kBlock > size && size >= kBlock && copy_block(text.data() + size - kBlock, out + size - kBlock)) return size;
  for (; at < size && is_plain(static_cast<unsigned char>(text[at])); ++at) out[at] = text[at];
  return at;
}

char* put_text(std::string_view text, JsonScratch& scratch, char* out) {
  *out++ = '"';
  while (true) {
    const std::size_t n_plain = copy_plain(text, out);
    out += n_plain;
    text.remove_prefix(n_plain);
    if (text.empty()) break;
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      out = put_escaped(static_cast<unsigned char>(text[0]), out);
      text.remove_prefix(1);
      continue;
    }
    std::size_t n_bytes = 1;
    while (n_bytes < text.size() && static_cast<unsigned char>(text[n_bytes]) >= 0x80) ++n_bytes;
    out = put_non_ascii(text.substr(0, n_bytes), scratch, out);
    text.remove_prefix(n_bytes);
  }
  *out++ = '"';
  return out;
}

char* put_score(float score, char* out) {
  if (!std::isfinite(score)) return put("null", out);
  return std::to_chars(out, out + 32, score).ptr;
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

// The products of a result are far apart in memory, and to wait for each in turn would take as long as the search.
// So the offsets of all texts are prefetched first, then all texts.
void prefetch_offsets(const StringsView& texts, std::span<const std::int32_t> labels) {
  for (const std::int32_t label : labels)
    if (label >= 0 && static_cast<std::size_t>(label) < texts.offsets.size())
      prefetch_far(texts.offsets.data() + label);
}

// Returns the number of bytes of the texts.
std::size_t prefetch_texts(const StringsView& texts, std::span<const std::int32_t> labels,
                           std::vector<std::string_view>& found) {
  found.clear();
  std::size_t n_bytes = 0;
  for (const std::int32_t label : labels) {
    const std::string_view text = text_at(texts, label);
    found.push_back(text);
    n_bytes += text.size();
    const char* const end = text.data() + std::min(text.size(), kMaxPrefetched * kLine);
    for (const char* at = text.data(); at < end; at += kLine) prefetch_far(at);
    if (text.size() > 1) prefetch_far(end - 1);  // a text rarely starts at a cache line
  }
  return n_bytes;
}

// Makes room for the products, and for some bytes before them; their texts are in `scratch` then.
char* prepare_products(const StringsView& ids, const StringsView* titles, std::span<const std::int32_t> labels,
                       std::span<const float> scores, std::size_t n_before, JsonScratch& scratch) {
  if (labels.size() != scores.size()) throw std::invalid_argument("each label must have a score");
  prefetch_offsets(ids, labels);
  if (titles != nullptr) prefetch_offsets(*titles, labels);
  std::size_t n_bytes = titles == nullptr ? 0 : prefetch_texts(*titles, labels, scratch.titles);
  n_bytes += prefetch_texts(ids, labels, scratch.ids);
  const std::size_t most = n_before + kWidest * n_bytes + kAround * (labels.size() + 1);
  if (scratch.out.size() < most) scratch.out.resize(most);
  return scratch.out.data();
}

char* put_products(std::span<const float> scores, bool has_titles, JsonScratch& scratch, char* out) {
  char* const begin = out++;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    out = i == 0 ? begin : out;
    out = put(",{\"id\":", out);
    out = put_text(scratch.ids[i], scratch, out);
    out = put(",\"score\":", out);
    out = put_score(scores[i], out);
    if (has_titles) {
      out = put(",\"title\":", out);
      out = put_text(scratch.titles[i], scratch, out);
    }
    *out++ = '}';
  }
  *begin = '[';
  *out++ = ']';
  return out;
}

}  // namespace

std::string_view write_products(const StringsView& ids, const StringsView* titles, std::span<const std::int32_t> labels,
                                std::span<const float> scores, JsonScratch& scratch) {
  char* const begin = prepare_products(ids, titles, labels, scores, 0, scratch);
  char* const end = put_products(scores, titles != nullptr, scratch, begin);
  return {begin, static_cast<std::size_t>(end - begin)};
}

std::string_view write_answer(std::string_view head, std::string_view query, std::int64_t microseconds,
                              const StringsView& ids, const StringsView* titles, std::span<const std::int32_t> labels,
                              std::span<const float> scores, JsonScratch& scratch) {
  const std::size_t n_before = head.size() + kWidest * query.size() + kAround;
  char* const begin = prepare_products(ids, titles, labels, scores, n_before, scratch);
  char* out = put(head, begin);
  out = put("\"query\":", out);
  out = put_text(query, scratch, out);
  out = put(",\"microseconds\":", out);
  out = std::to_chars(out, out + 20, microseconds).ptr;
  out = put(",\"products\":", out);
  out = put_products(scores, titles != nullptr, scratch, out);
  *out++ = '}';
  return {begin, static_cast<std::size_t>(out - begin)};
}

std::string_view write_ids(const StringsView& ids, std::span<const std::int32_t> labels, JsonScratch& scratch) {
  prefetch_offsets(ids, labels);
  const std::size_t n_bytes = prefetch_texts(ids, labels, scratch.ids);
  const std::size_t most = kWidest * n_bytes + kAround * labels.size() + kBlock;
  if (scratch.out.size() < most) scratch.out.resize(most);
  char* const begin = scratch.out.data();
  char* out = put("[", begin);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (i > 0) *out++ = ',';
    out = put_text(scratch.ids[i], scratch, out);
  }
  *out++ = ']';
  return {begin, static_cast<std::size_t>(out - begin)};
}

}  // namespace matchset
