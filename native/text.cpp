#include "text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "markup.hpp"
#include "threads.hpp"
#include "unicode.hpp"

namespace matchset {
namespace {

// The role of a character in the rules below.
enum Kind : unsigned char {
  split,
  word,
  digit,
  symbol,
  drop,
  apostrophe,
  quote,
  point,
  comma,
  slash,
  hash,
  plus,
  percent,
  markup  // separates, but may begin a tag or an entity
};

constexpr char32_t kFractionSlash = 0x2044;

constexpr auto kAscii = [] {
  std::array<Kind, 128> kinds{};  // split
  for (char c = '0'; c <= '9'; ++c) kinds[static_cast<std::size_t>(c)] = digit;
  for (char c = 'a'; c <= 'z'; ++c) kinds[static_cast<std::size_t>(c)] = kinds[static_cast<std::size_t>(c - 32)] = word;
  kinds['\''] = kinds['`'] = apostrophe;
  kinds['"'] = quote;
  kinds['.'] = point;
  kinds[','] = comma;
  kinds['/'] = slash;
  kinds['#'] = hash;
  kinds['+'] = plus;
  kinds['%'] = percent;
  kinds['<'] = kinds['&'] = markup;
  return kinds;
}();

Kind kind_of(char32_t code) {
  if (code < 128) return kAscii[code];
  switch (code) {
    case 0x02BC:
    case 0x2018:
    case 0x2019:
    case 0x201B:
    case 0x2032:
    case 0x2035: return apostrophe;
    default: break;
  }
  switch (code_kind(code)) {
    case CodeKind::word: return word;
    case CodeKind::symbol: return symbol;
    case CodeKind::drop: return drop;
    case CodeKind::split: break;
  }
  return code >= 0x201C && code <= 0x201F ? quote : split;  // curly double quotes
}

// Before NFKC: separates signs that it would attach to their neighbors ("lego(tm)" -> "legotm", "2 1/2" -> "21/2").
void detach_signs(std::vector<char32_t>& codes, std::vector<char32_t>& scratch) {
  scratch.clear();
  for (const char32_t code : codes) {
    const bool is_fraction = (code >= 0xBC && code <= 0xBE) || (code >= 0x2150 && code <= 0x215E) || code == 0x2189;
    if (is_fraction && !scratch.empty() && scratch.back() - '0' < 10) scratch.push_back(' ');
    switch (code) {
      case 0x2120:
      case 0x2122: scratch.push_back(' '); break;  // service mark, trade mark
      case 0xB4:
      case 0x1FFD: scratch.push_back('\''); break;  // acute accent typed as an apostrophe
      case 0xD7: scratch.push_back('x'); break;     // multiplication sign
      default: scratch.push_back(code);
    }
  }
  codes.swap(scratch);
}

// Removes what never counts: apostrophes, invisible characters, the inch mark after a digit. This comes before
// composition and the rules below, so that characters adjacent for them are adjacent in the result.
// A foot or inch mark between two digits separates them: 5'10" is not 510.
void drop_unseen(std::vector<char32_t>& codes) {
  std::size_t kept = 0;
  for (std::size_t at = 0; at < codes.size(); ++at) {
    const Kind kind = kind_of(codes[at]);
    const bool follows_digit = kept > 0 && kind_of(codes[kept - 1]) == digit;
    if (kind == apostrophe || (kind == quote && follows_digit)) {
      const bool is_between = follows_digit && at + 1 < codes.size() && kind_of(codes[at + 1]) == digit;
      if (is_between) codes[kept++] = ' ';
    } else if (kind != drop) {
      codes[kept++] = codes[at] == kFractionSlash ? U'/' : codes[at];
    }
  }
  codes.resize(kept);
}

bool is_word(unsigned char kind) { return kind == word || kind == digit; }

enum class Fate { keep, separate, join };

// Whether the punctuation at `at` is kept, separates or joins.
Fate fate_of(const std::vector<unsigned char>& kinds, std::size_t at) {
  const auto kind = [&](std::size_t index) {
    return index < kinds.size() ? kinds[index] : static_cast<unsigned char>(split);
  };
  const unsigned char before = at > 0 ? kinds[at - 1] : static_cast<unsigned char>(split), after = kind(at + 1);
  switch (kinds[at]) {
    case point: return after == digit && !(is_word(before) && before != digit) ? Fate::keep : Fate::separate;
    case slash: return before == digit && after == digit ? Fate::keep : Fate::separate;
    case percent: return before == digit ? Fate::keep : Fate::separate;
    case comma: {
      const bool is_thousands =
          before == digit && after == digit && kind(at + 2) == digit && kind(at + 3) == digit && kind(at + 4) != digit;
      return is_thousands ? Fate::join : Fate::separate;
    }
    case hash:
      if (after == digit && !is_word(before)) return Fate::keep;
      return is_word(before) && !is_word(after) ? Fate::keep : Fate::separate;
    case plus: {  // "a+" and "c++": one or two at the end of a word
      const bool is_second = before == plus && at > 1 && is_word(kinds[at - 2]);
      const bool is_first = is_word(before);
      const unsigned char next = is_first && after == plus ? kind(at + 2) : after;
      return (is_first || is_second) && !is_word(next) && next != plus ? Fate::keep : Fate::separate;
    }
    default: return Fate::separate;
  }
}

// After a cut: removes marks at the end that were kept only for the digit after them.
void trim_cut(std::size_t begin, std::vector<char>& out) {
  const auto hangs = [&] {
    if (out.back() != '#') return out.back() == ' ' || out.back() == '.' || out.back() == '/';
    if (out.size() - begin == 1) return true;
    const auto before = static_cast<unsigned char>(out[out.size() - 2]);
    return before < 128 && !is_word(kAscii[before]);
  };
  while (out.size() > begin && hangs()) out.pop_back();
}

// Writes the words, one space between them, and a space between a symbol (emoji) and its neighbors.
void write_words(const TextScratch& scratch, std::vector<char>& out) {
  const std::size_t begin = out.size();
  std::size_t n_chars = 0;
  bool wants_space = false;
  unsigned char last = split;
  for (std::size_t at = 0; at < scratch.codes.size(); ++at) {
    const unsigned char kind = scratch.kinds[at];
    const Fate fate = is_word(kind) || kind == symbol ? Fate::keep : fate_of(scratch.kinds, at);
    if (fate == Fate::join) continue;
    if (fate == Fate::separate || (kind == symbol) != (last == symbol)) wants_space = true;
    if (fate == Fate::separate) continue;
    wants_space = wants_space && out.size() > begin;
    n_chars += wants_space ? 2 : 1;
    if (n_chars > kMaxChars) return trim_cut(begin, out);
    if (wants_space) out.push_back(' ');
    wants_space = false;
    last = kind;
    append_utf8(scratch.codes[at], out);
  }
}

// Fast path for letters, digits and blanks: nearly every query. Returns false if the general rules are needed.
bool write_plain(std::string_view text, std::vector<char>& out) {
  const std::size_t begin = out.size();
  bool wants_space = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const Kind kind = byte < 128 ? kAscii[byte] : symbol;
    if (is_word(kind)) {
      if (wants_space && out.size() > begin) out.push_back(' ');
      wants_space = false;
      out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
    } else if (kind == split) {
      wants_space = true;
    } else {
      out.resize(begin);
      return false;
    }
  }
  return true;
}

// The part of a text that can count, up to a whole character.
std::string_view cut(std::string_view text) {
  if (text.size() <= kMaxBytes) return text;
  std::size_t n = kMaxBytes;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
  return text.substr(0, n);
}

}  // namespace

void normalize(std::string_view text, TextScratch& scratch, std::vector<char>& out) {
  if (text.size() <= kMaxChars && write_plain(text, out)) return;
  const std::string_view counted = cut(text);
  if (may_have_markup(counted) && clean_markup(counted, scratch.cleaned))
    text = {scratch.cleaned.data(), scratch.cleaned.size()};
  scratch.codes.clear();
  decode_utf8(text, kMaxChars, scratch.codes);
  detach_signs(scratch.codes, scratch.more_codes);
  fold_compatible(scratch.codes, scratch.more_codes);
  drop_unseen(scratch.codes);
  compose_compatible(scratch.codes, scratch.more_codes);
  scratch.kinds.resize(scratch.codes.size());
  std::transform(scratch.codes.begin(), scratch.codes.end(), scratch.kinds.begin(), kind_of);
  write_words(scratch, out);
}

OwnedStrings normalize_all(const StringsView& texts, unsigned n_threads) {
  constexpr std::size_t kChunk = 8192;
  const std::size_t n_chunks = (texts.size() + kChunk - 1) / kChunk;
  std::vector<OwnedStrings> parts(n_chunks);
  parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
    TextScratch scratch;
    OwnedStrings& part = parts[chunk];
    std::vector<char> text;
    for (std::size_t i = chunk * kChunk; i < std::min(texts.size(), (chunk + 1) * kChunk); ++i) {
      text.clear();
      normalize(texts[i], scratch, text);
      part.append({text.data(), text.size()});
    }
  });
  return join_strings(parts);
}

}  // namespace matchset
