#include "unicode.hpp"

#include <algorithm>
#include <iterator>
#include <span>

namespace matchset {
namespace {

#include "unicode_tables.inc"

// Hangul syllables are composed by arithmetic (Unicode 3.12).
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTrails = 28, kSyllables = kLeads * kVowels * kTrails;

std::span<const char32_t> replacement(char32_t code, std::span<const char32_t> from, const std::uint16_t* start,
                                      const char32_t* to) {
  const auto at = std::lower_bound(from.begin(), from.end(), code);
  if (at == from.end() || *at != code) return {};
  const auto index = at - from.begin();
  return {to + start[index], to + start[index + 1]};
}

template <std::size_t n>
std::uint8_t value_of_run(char32_t code, const char32_t (&starts)[n], const std::uint8_t (&values)[n]) {
  if (code < starts[0]) return 0;
  return values[std::upper_bound(starts, starts + n, code) - starts - 1];
}

std::uint8_t combining_class(char32_t code) { return value_of_run(code, kCombiningStart, kCombiningClass); }

void decompose(char32_t code, std::vector<char32_t>& out) {
  if (code < 0x80) {
    out.push_back(code);
  } else if (code - kSyllable < kSyllables) {
    const char32_t index = code - kSyllable;
    out.push_back(kLead + index / (kVowels * kTrails));
    out.push_back(kVowel + index % (kVowels * kTrails) / kTrails);
    if (index % kTrails) out.push_back(kTrail + index % kTrails);
  } else if (const auto to = replacement(code, kDecomposeFrom, kDecomposeStart, kDecomposeTo); !to.empty()) {
    out.insert(out.end(), to.begin(), to.end());
  } else {
    out.push_back(code);
  }
}

void fold(char32_t code, std::vector<char32_t>& out) {
  if (code < 0x80) {
    out.push_back(code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code);
  } else if (const auto to = replacement(code, kFoldFrom, kFoldStart, kFoldTo); !to.empty()) {
    out.insert(out.end(), to.begin(), to.end());
  } else {
    out.push_back(code);
  }
}

// Sorts each run of combining marks by class, stably.
void reorder(std::vector<char32_t>& codes) {
  for (auto begin = codes.begin(); begin != codes.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, codes.end(), [](char32_t c) { return combining_class(c) == 0; });
    std::stable_sort(begin, end, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

// The composite of two code points, or 0.
char32_t composite(char32_t first, char32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels)
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTrails;
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTrails == 0 && second - kTrail - 1 < kTrails - 1)
    return first + (second - kTrail);
  const auto [begin, end] = std::equal_range(std::begin(kComposeFirst), std::end(kComposeFirst), first);
  const auto* seconds = kComposeSecond + (begin - std::begin(kComposeFirst));
  const auto* at = std::lower_bound(seconds, seconds + (end - begin), second);
  return at != seconds + (end - begin) && *at == second ? kComposeTo[at - kComposeSecond] : 0;
}

// Canonical composition in place: a mark joins the last starter unless one of its class or higher stands between.
void compose(std::vector<char32_t>& codes) {
  std::size_t out = 0, starter = 0;
  bool has_starter = false;
  std::uint8_t last_class = 0;
  for (const char32_t code : codes) {
    const std::uint8_t mark = combining_class(code);
    const bool is_adjacent = has_starter && out == starter + 1;
    if (has_starter && (is_adjacent || (last_class != 0 && last_class < mark))) {
      if (const char32_t joined = composite(codes[starter], code)) {
        codes[starter] = joined;
        continue;
      }
    }
    if (mark == 0) {
      starter = out;
      has_starter = true;
    }
    last_class = mark;
    codes[out++] = code;
  }
  codes.resize(out);
}

}  // namespace

CodeKind code_kind(char32_t code) { return static_cast<CodeKind>(value_of_run(code, kKindStart, kKind)); }

const char* unicode_version() { return kUnicodeVersion; }

void decode_utf8(std::string_view bytes, std::size_t limit, std::vector<char32_t>& codes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto* end = at + bytes.size();
  for (; at != end && codes.size() < limit;) {
    const unsigned char lead = *at++;
    if (lead < 0x80) {
      codes.push_back(lead);
      continue;
    }
    const int more = lead >= 0xC2 && lead < 0xE0   ? 1
                     : lead >= 0xE0 && lead < 0xF0 ? 2
                     : lead >= 0xF0 && lead < 0xF5 ? 3
                                                   : 0;
    char32_t code = lead & (0x3Fu >> more);
    int got = 0;
    for (; got < more && at + got != end && (at[got] & 0xC0) == 0x80; ++got) code = code << 6 | (at[got] & 0x3Fu);
    constexpr char32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
    const bool is_valid =
        more > 0 && got == more && code >= kSmallest[more] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    codes.push_back(is_valid ? code : 0xFFFD);
    if (is_valid) at += more;
  }
}

void append_utf8(char32_t code, std::vector<char>& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
}

void fold_compatible(std::vector<char32_t>& codes, std::vector<char32_t>& scratch) {
  scratch.clear();
  for (const char32_t code : codes) decompose(code, scratch);
  reorder(scratch);
  codes.clear();
  for (const char32_t code : scratch) fold(code, codes);
}

void compose_compatible(std::vector<char32_t>& codes, std::vector<char32_t>& scratch) {
  scratch.clear();
  for (const char32_t code : codes) decompose(code, scratch);
  reorder(scratch);
  compose(scratch);
  codes.swap(scratch);
}

}  // namespace matchset
