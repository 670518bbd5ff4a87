#include "stems.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>

#include "threads.hpp"
#include "vocabulary.hpp"

namespace matchset {
namespace {

constexpr std::size_t kChunk = 4096;         // texts that a thread takes at a time
constexpr std::uint64_t kWordSeed = 0x5753;  // apart from those of n-grams

std::uint64_t word_key(std::string_view word) {
  const std::uint64_t hash = hash_bytes(word, kWordSeed);
  return hash == kFreeKey ? 0 : hash;
}

template <typename Visit>
void for_each_word(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t number_end(std::string_view word, std::size_t at) {
  while (at < word.size() && (is_digit(word[at]) || word[at] == '.' || word[at] == '/')) ++at;
  return at;
}

// Numbers, and the unit after them: "6ft" is "6" and "ft", "2x4" is "2" and "4". Shops write both ways, and BM25 on
// Home Depot finds 0.9 points more at 100. Other words, model numbers among them, are one piece.
template <typename Visit>
void for_each_piece(std::string_view word, Visit&& visit) {
  if (!is_digit(word[0]) && word[0] != '.') return visit(word);
  std::size_t unit = number_end(word, 0);
  while (unit + 1 < word.size() && word[unit] == 'x' && is_digit(word[unit + 1])) unit = number_end(word, unit + 1);
  const std::string_view rest = word.substr(unit);
  if (!std::all_of(rest.begin(), rest.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c & 0x80) != 0; }))
    return visit(word);
  for (std::size_t begin = 0; begin < unit;) {
    const std::size_t end = number_end(word, begin);
    visit(word.substr(begin, end - begin));
    begin = end < unit ? end + 1 : unit;
  }
  if (!rest.empty()) visit(rest);
}

// The code point that starts a well-formed text, and its length in bytes.
std::pair<char32_t, std::size_t> first_code(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<char32_t>(static_cast<unsigned char>(text[i])) : U'\0';
  };
  if (byte(0) < 0x80) return {byte(0), 1};
  if (byte(0) < 0xE0) return {(byte(0) & 0x1F) << 6 | (byte(1) & 0x3F), std::min<std::size_t>(2, text.size())};
  if (byte(0) < 0xF0)
    return {(byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), std::min<std::size_t>(3, text.size())};
  return {(byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          std::min<std::size_t>(4, text.size())};
}

// Thai, Lao, Myanmar, Khmer; kana, Bopomofo, Han and its extensions. Hangul has spaces.
bool is_unspaced(char32_t code) {
  return (code >= 0x0E00 && code <= 0x0EFF) || (code >= 0x1000 && code <= 0x109F) ||
         (code >= 0x1780 && code <= 0x17FF) || (code >= 0x3040 && code <= 0x312F) ||
         (code >= 0x3400 && code <= 0x9FFF) || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0x20000 && code <= 0x3FFFF);
}

bool has_unspaced(std::string_view word) {
  for (std::size_t at = 0; at < word.size();) {
    const auto [code, length] = first_code(word.substr(at));
    if (is_unspaced(code)) return true;
    at += length;
  }
  return false;
}

// Calls visit(part, is_run) for the runs of scripts without spaces in a word, and for what is between them.
template <typename Visit>
void for_each_run(std::string_view word, Visit&& visit) {
  for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    const bool is_run = is_unspaced(first_code(word.substr(begin)).first);
    while (end < word.size()) {
      const auto [code, length] = first_code(word.substr(end));
      if (is_unspaced(code) != is_run) break;
      end += length;
    }
    visit(word.substr(begin, end - begin), is_run);
  }
}

// Appends overlapping pairs of characters, one space between them; a single character as it is.
void append_pairs(std::string_view run, std::vector<char>& out) {
  std::size_t begin = 0, middle = first_code(run).second;
  do {
    const std::size_t end = middle < run.size() ? middle + first_code(run.substr(middle)).second : middle;
    if (begin > 0) out.push_back(' ');
    const std::string_view pair = run.substr(begin, end - begin);
    out.insert(out.end(), pair.begin(), pair.end());
    begin = std::exchange(middle, end);
  } while (middle < run.size());
}

// Appends the characters of runs of two or more, kana and Chinese ones, for whoever asks for one of them. Two spaces
// come before each: no word n-gram spans them, so that those of pairs stay as they are. Letters of Thai and its like
// name nothing alone.
void append_singles(std::string_view word, std::size_t start, std::vector<char>& out) {
  for_each_run(word, [&](std::string_view run, bool is_run) {
    for (std::size_t at = 0, n = 0; is_run && at < run.size(); at += n) {
      const auto [code, length] = first_code(run.substr(at));
      n = length;
      if (code < 0x3040 || n == run.size() || out.size() - start + 2 + n > kMaxAnalyzed) continue;
      out.insert(out.end(), 2, ' ');
      out.insert(out.end(), run.begin() + static_cast<std::ptrdiff_t>(at),
                 run.begin() + static_cast<std::ptrdiff_t>(at + n));
    }
  });
}

// Appends what `write` writes as a word behind those since `start`; nothing where it writes nothing.
template <typename Write>
void append_word(std::size_t start, std::vector<char>& out, Write&& write) {
  const std::size_t before = out.size();
  if (before > start) out.push_back(' ');
  const std::size_t begin = out.size();
  write();
  if (out.size() == begin) out.resize(before);
}

// Appends the stem of a word, nothing for a stop word. Runs of a script without spaces become pairs of characters,
// whatever the language; the table has no such words.
void append_stem(std::string_view word, const StemsView& stems, std::vector<char>& out) {
  if (const StemSlot* slot = stems.find(word)) {
    out.insert(out.end(), word.begin(), word.begin() + slot->n_kept);
    const auto suffix = stems.suffixes[slot->suffix];
    out.insert(out.end(), suffix.begin(), suffix.end());
  } else if (has_unspaced(word)) {
    for_each_run(word, [&, start = out.size()](std::string_view part, bool is_run) {
      if (is_run) return append_word(start, out, [&] { append_pairs(part, out); });
      for_each_piece(part,
                     [&](std::string_view piece) { append_word(start, out, [&] { append_stem(piece, stems, out); }); });
    });
  } else if (stems.stem_unknown) {
    stems.stem_unknown(word, out);
  } else {
    out.insert(out.end(), word.begin(), word.end());
  }
}

// Distinct words in the order in which they first occur.
struct WordLister {
  WordList list;
  StringTable table;

  std::int64_t add(std::string_view word, bool shown) {
    const auto text_at = [&](std::int64_t i) { return list.words.view()[static_cast<std::size_t>(i)]; };
    const std::int64_t at = table.insert(word, std::ssize(list.is_shown), text_at);
    if (at == std::ssize(list.is_shown)) {
      list.words.append(word);
      list.is_shown.push_back(0);
    }
    list.is_shown[static_cast<std::size_t>(at)] |= static_cast<std::uint8_t>(shown);
    return at;
  }
  // Adds the words of texts that follow; returns the number of each here.
  std::vector<std::int32_t> add_all(const WordList& more) {
    std::vector<std::int32_t> numbers;
    for (std::size_t i = 0; i < more.is_shown.size(); ++i)
      numbers.push_back(static_cast<std::int32_t>(add(more.words.view()[i], more.is_shown[i] != 0)));
    return numbers;
  }
};

// Calls visit(part, text) for the texts of each part, in their order. Parts follow each other, so that what is made of
// all of them in turn does not depend on how many there are.
template <typename Visit>
void for_each_text(const StringsView& texts, std::size_t n_parts, unsigned n_threads, Visit&& visit) {
  parallel_for(n_parts, n_threads, [&](std::size_t part) {
    for (std::size_t i = texts.size() * part / n_parts; i < texts.size() * (part + 1) / n_parts; ++i) visit(part, i);
  });
}

// Bytes that two texts begin with alike, up to the last whole character.
std::size_t common_bytes(std::string_view a, std::string_view b) {
  std::size_t n = 0;
  while (n < std::min(a.size(), b.size()) && a[n] == b[n]) ++n;
  while (n > 0 && n < a.size() && (static_cast<unsigned char>(a[n]) & 0xC0) == 0x80) --n;
  return n;
}

}  // namespace

StemTable lay_out_stems(const StringsView& words, const StringsView& stems, std::span<const std::uint8_t> is_shown,
                        std::uint64_t n_homes) {
  StemTable table;
  table.suffixes.append("");
  StringTable index;
  const auto suffix_at = [&](std::int64_t i) { return table.suffixes.view()[static_cast<std::size_t>(i)]; };
  index.insert("", 0, suffix_at);
  std::vector<StemSlot> found;
  for (const bool shown : {true, false}) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if ((is_shown[i] != 0) != shown) continue;
      const std::size_t n_kept = common_bytes(words[i], stems[i]);
      const std::string_view suffix = stems[i].substr(n_kept);
      if (suffix.size() > (shown ? kMaxSuffix : kMaxHiddenSuffix)) continue;
      const auto fresh = static_cast<std::int64_t>(table.suffixes.offsets.size()) - 1;
      const std::int64_t at = shown ? index.insert(suffix, fresh, suffix_at) : index.find(suffix, suffix_at);
      if (at < 0) continue;
      if (at == fresh) table.suffixes.append(suffix);
      found.push_back({word_key(words[i]), static_cast<std::uint32_t>(n_kept), static_cast<std::uint32_t>(at)});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  table.slots.reserve(n_homes + 64);
  for (const StemSlot& slot : found) {
    if (!table.slots.empty() && table.slots.back().key == slot.key) continue;
    while (table.slots.size() < home_of(slot.key, n_homes)) table.slots.push_back({kFreeKey, 0, 0});
    table.slots.push_back(slot);
  }
  while (table.slots.size() < n_homes) table.slots.push_back({kFreeKey, 0, 0});
  return table;
}

const StemSlot* StemsView::find(std::string_view word) const {
  const std::uint64_t key = word_key(word);
  for (std::uint64_t at = home_of(key, n_homes); at < slots.size() && slots[at].key <= key; ++at)
    if (slots[at].key == key)
      return slots[at].suffix < suffixes.size() && slots[at].n_kept <= word.size() ? &slots[at] : nullptr;
  return nullptr;
}

void append_stems(std::string_view normalized, const StemsView& stems, std::vector<char>& out) {
  const std::size_t start = out.size();
  bool is_cut = false;
  const auto append = [&](std::string_view word) {
    if (is_cut) return;
    const std::size_t before = out.size();
    append_word(start, out, [&] { append_stem(word, stems, out); });
    is_cut = out.size() - start > kMaxAnalyzed;
    if (is_cut) out.resize(before);
  };
  for_each_word(normalized, [&](std::string_view word) { for_each_piece(word, append); });
  if (out.size() == start) out.insert(out.end(), normalized.begin(), normalized.end());
  for_each_word(normalized, [&](std::string_view word) { append_singles(word, start, out); });
}

OwnedStrings stem_all(const StringsView& normalized, const StemsView& stems, unsigned n_threads) {
  const std::size_t n = normalized.size(), n_chunks = (n + kChunk - 1) / kChunk;
  std::vector<OwnedStrings> parts(n_chunks);
  parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
    OwnedStrings& part = parts[chunk];
    std::vector<char> text;
    for (std::size_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
      text.clear();
      append_stems(normalized[i], stems, text);
      part.append({text.data(), text.size()});
    }
  });
  return join_strings(parts);
}

namespace {

// The word itself among the wanted, or else the longest "-ending" of it that stands behind two bytes or more; -1 for
// neither.
template <typename Find>
std::int64_t find_word_or_ending(std::string_view word, std::size_t longest, std::string& ending, Find&& find) {
  std::int64_t at = find(word);
  for (std::size_t begin = std::max<std::size_t>(2, word.size() - std::min(word.size(), longest));
       at < 0 && begin < word.size(); ++begin) {
    if ((static_cast<unsigned char>(word[begin]) & 0xC0) == 0x80) continue;  // inside a character
    ending.assign(1, '-').append(word.substr(begin));
    at = find(ending);
  }
  return at;
}

}  // namespace

WordCounts count_words(const StringsView& normalized, const StringsView& wanted, unsigned n_threads) {
  StringTable table(wanted.size());
  const auto text_at = [&](std::int64_t i) { return wanted[static_cast<std::size_t>(i)]; };
  std::size_t longest = 0;  // of the endings, in bytes
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    table.insert(wanted[i], static_cast<std::int64_t>(i), text_at);
    if (wanted[i].starts_with('-')) longest = std::max(longest, wanted[i].size() - 1);
  }
  const auto find = [&](std::string_view text) { return table.find(text, text_at); };
  WordCounts all{.counts = std::vector<std::int64_t>(wanted.size())};
  std::mutex lock;
  parallel_for((normalized.size() + kChunk - 1) / kChunk, n_threads, [&](std::size_t chunk) {
    WordCounts own{.counts = std::vector<std::int64_t>(wanted.size())};
    std::string ending;
    for (std::size_t i = chunk * kChunk; i < std::min(normalized.size(), (chunk + 1) * kChunk); ++i)
      for_each_word(normalized[i], [&](std::string_view word) {
        ++own.n_words;
        own.n_unspaced += has_unspaced(word);
        if (const std::int64_t at = find_word_or_ending(word, longest, ending, find); at >= 0)
          ++own.counts[static_cast<std::size_t>(at)];
      });
    const std::lock_guard guard(lock);  // sums of integers: the order does not matter
    all.n_words += own.n_words;
    all.n_unspaced += own.n_unspaced;
    std::transform(own.counts.begin(), own.counts.end(), all.counts.begin(), all.counts.begin(), std::plus<>());
  });
  return all;
}

WordList list_words(const StringsView& normalized, std::span<const std::uint8_t> is_shown, unsigned n_threads) {
  std::vector<WordLister> parts(std::max(1u, n_threads));
  for_each_text(normalized, parts.size(), n_threads, [&](std::size_t part, std::size_t i) {
    const auto add = [&](std::string_view piece) { parts[part].add(piece, is_shown.empty() || is_shown[i]); };
    for_each_word(normalized[i], [&](std::string_view word) {
      for_each_run(word, [&](std::string_view rest, bool is_run) {
        if (!is_run) for_each_piece(rest, add);
      });
    });
  });
  for (std::size_t part = 1; part < parts.size(); ++part) parts[0].add_all(parts[part].list);
  return std::move(parts[0].list);
}

NumberedWords number_words(const StringsView& normalized, std::span<const std::uint8_t> is_shown, unsigned n_threads) {
  std::vector<WordLister> parts(std::max(1u, n_threads));
  std::vector<Buffer<std::int32_t>> words(parts.size());
  NumberedWords found;
  found.offsets.resize(normalized.size() + 1);
  for_each_text(normalized, parts.size(), n_threads, [&](std::size_t part, std::size_t i) {
    for_each_word(normalized[i], [&](std::string_view word) {
      words[part].push_back(static_cast<std::int32_t>(parts[part].add(word, is_shown.empty() || is_shown[i])));
      ++found.offsets[i + 1];
    });
  });
  for (std::size_t i = 0; i < normalized.size(); ++i) found.offsets[i + 1] += found.offsets[i];
  std::vector<std::vector<std::int32_t>> number_of(parts.size());  // among the words of all parts
  std::vector<std::size_t> begins{0};
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (part > 0) number_of[part] = parts[0].add_all(parts[part].list);
    begins.push_back(begins.back() + words[part].size());
  }
  found.words.resize(begins.back());
  parallel_for(parts.size(), n_threads, [&](std::size_t part) {
    for (std::size_t i = 0; i < words[part].size(); ++i)
      found.words[begins[part] + i] =
          part == 0 ? words[0][i] : number_of[part][static_cast<std::size_t>(words[part][i])];
  });
  found.distinct = std::move(parts[0].list);
  return found;
}

}  // namespace matchset
