#include "ngram_counts.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "parallel_sort.hpp"
#include "stems.hpp"
#include "text.hpp"
#include "threads.hpp"
#include "vocabulary.hpp"

namespace matchset {
namespace {

constexpr std::size_t kParts = 64;    // ranges of hashes that are counted separately
constexpr std::size_t kChunk = 1024;  // most texts that a thread takes at a time
constexpr std::size_t kBlock = 64;    // chunks that are split before their n-grams are counted
constexpr std::size_t kNamed = 8192;  // n-grams whose names a thread writes at a time
// Bytes of a chunk. Its n-grams take about thirty times as much until they are counted, which is part of the budget.
std::size_t chunk_bytes(std::size_t budget) { return std::clamp<std::size_t>(budget / 16384, 1 << 12, 1 << 16); }
static_assert(std::max(kMaxBytes, kMaxAnalyzed) + 2 <= std::numeric_limits<std::uint16_t>::max());

std::size_t part_of(std::uint64_t key) { return key >> 58; }

// Where an n-gram occurs: a slice of a padded text.
struct Slice {
  std::uint32_t text;
  std::uint16_t begin, length;
};

struct Occurrence {
  std::uint64_t key;
  Slice slice;
};

struct Counter {
  std::uint64_t key;
  std::uint32_t df = 0;  // 0: free
  std::uint32_t last_text;
  Slice slice;  // of the first occurrence in a text that may be shown, or else of the first
};

// Which texts may be shown to people; without marks all may be.
struct ShownTexts {
  std::span<const std::uint8_t> marks;
  bool has(std::uint32_t text) const { return marks.empty() || marks[text] != 0; }
};

// Counts one range of hashes of one kind.
class CountTable {
 public:
  void add(const Occurrence& seen, const ShownTexts& shown) {
    if (5 * (size_ + 1) > 4 * counters_.size()) grow();
    Counter& counter = find(seen.key);
    if (counter.df == 0) {
      counter = {seen.key, 1, seen.slice.text, seen.slice};
      ++size_;
    } else if (counter.last_text != seen.slice.text) {
      ++counter.df;
      counter.last_text = seen.slice.text;
      if (shown.has(seen.slice.text) && !shown.has(counter.slice.text)) counter.slice = seen.slice;
    }
  }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return counters_.size() * sizeof(Counter); }
  const Buffer<Counter>& counters() const { return counters_; }

 private:
  Counter& find(std::uint64_t key) {
    const std::size_t mask = counters_.size() - 1;
    for (std::size_t at = key & mask;; at = (at + 1) & mask)
      if (counters_[at].df == 0 || counters_[at].key == key) return counters_[at];
  }
  void grow() {
    Buffer<Counter> old(std::max<std::size_t>(64, 2 * counters_.size()));
    old.swap(counters_);
    for (const Counter& counter : old)
      if (counter.df != 0) find(counter.key) = counter;
  }
  Buffer<Counter> counters_;
  std::size_t size_ = 0;
};

struct NGramCandidate {
  std::uint64_t key;
  std::uint64_t prefix;  // see sort_prefix
  std::uint32_t df;
  Slice slice;
};

class NGramCounter {
 public:
  NGramCounter(const StringsView& texts, const StringsView& analyzed, std::span<const std::uint8_t> is_shown,
               std::span<const VocabularyRule> rules, std::size_t budget, unsigned n_threads)
      : texts_(texts), analyzed_(analyzed), has_analyzed_(analyzed.data.data() != texts.data.data()), shown_{is_shown},
        rules_(rules), budget_(budget), n_threads_(n_threads), candidates_(rules.size()), n_distinct_(rules.size()) {
    for (std::size_t text = 0; text < texts.size(); ++text) {
      const std::size_t begin = chunks_.back();
      const auto n_bytes = static_cast<std::size_t>(texts.offsets[text] - texts.offsets[begin]);
      if (text - begin == kChunk || n_bytes > chunk_bytes(budget)) chunks_.push_back(text);
    }
    if (texts.size() > 0) chunks_.push_back(texts.size());
  }

  std::vector<CountedNGrams> run(bool by_key) {
    for (std::size_t first = 0; first < kParts;) first = count_parts(first);
    std::vector<CountedNGrams> kept;
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) kept.push_back(finish(rule, by_key));
    return kept;
  }

 private:
  using Table = std::vector<CountTable>;  // one per range of hashes

  // Reads all texts for as many ranges of hashes from `first` as the budget holds; returns the range after the last.
  std::size_t count_parts(std::size_t first) {
    std::size_t end = kParts;
    std::vector<Table> tables(rules_.size(), Table(kParts));
    std::vector<Buffers> block(kBlock, Buffers(rules_.size() * kParts));
    for (std::size_t chunk = 0; chunk + 1 < chunks_.size(); chunk += kBlock) {
      const std::size_t n = std::min(kBlock, chunks_.size() - 1 - chunk);
      parallel_for(n, n_threads_, [&](std::size_t i) { split_chunk(chunk + i, first, end, block[i]); });
      parallel_for(rules_.size() * kParts, n_threads_, [&](std::size_t item) {
        for (std::size_t i = 0; i < n; ++i)
          for (const Occurrence& seen : block[i][item]) tables[item / kParts][item % kParts].add(seen, shown_);
      });
      while (end - first > 1 && bytes_of(tables) > budget_) {  // leave the upper half for another pass
        end -= (end - first) / 2;
        for (Table& table : tables)
          for (std::size_t part = end; part < kParts; ++part) table[part] = {};
      }
    }
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) select(rule, tables[rule]);
    return end;
  }

  using Buffers = std::vector<std::vector<Occurrence>>;

  void split_chunk(std::size_t chunk, std::size_t first, std::size_t end, Buffers& buffers) const {
    for (auto& buffer : buffers) buffer.clear();
    PaddedText surface, analyzed;
    for (std::size_t text = chunks_[chunk]; text < chunks_[chunk + 1]; ++text) {
      surface.assign(texts_[text]);
      if (has_analyzed_) analyzed.assign(analyzed_[text]);
      for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
        PaddedText& padded = has_analyzed_ && rules_[rule].kind.unit == Unit::word ? analyzed : surface;
        padded.for_each(rules_[rule].kind, [&](std::size_t begin, std::size_t length) {
          const std::uint64_t key = ngram_key(padded.slice(begin, length), rules_[rule].kind);
          const std::size_t part = part_of(key);
          if (part < first || part >= end) return;
          const Slice slice{static_cast<std::uint32_t>(text), static_cast<std::uint16_t>(begin),
                            static_cast<std::uint16_t>(length)};
          buffers[rule * kParts + part].push_back({key, slice});
        });
      }
    }
  }

  static std::size_t bytes_of(const std::vector<Table>& tables) {
    std::size_t bytes = 0;
    for (const Table& table : tables)
      for (const CountTable& part : table) bytes += part.bytes();
    return bytes;
  }

  // Updates the best n-grams of one kind with what these tables counted, and empties the tables.
  void select(std::size_t rule, Table& table) {
    std::vector<Buffer<NGramCandidate>> found(table.size());
    parallel_for(table.size(), n_threads_, [&](std::size_t part) {
      for (const Counter& counter : table[part].counters())
        if (counter.df >= std::max(1u, rules_[rule].min_df))
          found[part].push_back({counter.key, sort_prefix(bytes_at(rule, counter.slice)), counter.df, counter.slice});
    });
    auto& candidates = candidates_[rule];
    for (std::size_t part = 0; part < table.size(); ++part) {
      n_distinct_[rule] += table[part].size();
      table[part] = {};
      candidates.insert(candidates.end(), found[part].begin(), found[part].end());
      found[part] = {};
    }
    const std::size_t limit = rules_[rule].limit;
    if (candidates.size() <= limit) return;
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(limit), candidates.end(),
                     [&](const auto& a, const auto& b) { return is_better(rule, a, b); });
    candidates.resize(limit);
    candidates.shrink_to_fit();
  }

  CountedNGrams finish(std::size_t rule, bool by_key) {
    Buffer<NGramCandidate> candidates = std::move(candidates_[rule]);
    parallel_sort(candidates, n_threads_,
                  [&](const auto& a, const auto& b) { return by_key ? a.key < b.key : is_better(rule, a, b); });
    CountedNGrams kept;
    kept.n_distinct = n_distinct_[rule];
    kept.keys.resize(candidates.size());
    kept.df.resize(candidates.size());
    kept.is_shown.resize(candidates.size());
    std::vector<OwnedStrings> names((candidates.size() + kNamed - 1) / kNamed);
    parallel_for(names.size(), n_threads_, [&](std::size_t chunk) {
      for (std::size_t i = chunk * kNamed; i < std::min(candidates.size(), (chunk + 1) * kNamed); ++i) {
        const NGramCandidate& candidate = candidates[i];
        kept.keys[i] = candidate.key;
        kept.df[i] = candidate.df;
        kept.is_shown[i] = shown_.has(candidate.slice.text) ? 1 : 0;
        names[chunk].append(bytes_at(rule, candidate.slice));
      }
    });
    kept.names = join_strings(names);
    return kept;
  }

  bool is_better(std::size_t rule, const NGramCandidate& a, const NGramCandidate& b) const {
    if (a.df != b.df) return a.df > b.df;
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const std::size_t n = std::min(a.slice.length, b.slice.length);
    for (std::size_t i = sizeof(a.prefix); i < n; ++i) {
      const auto own = static_cast<unsigned char>(byte_at(rule, a.slice, i));
      const auto other = static_cast<unsigned char>(byte_at(rule, b.slice, i));
      if (own != other) return own < other;
    }
    return a.slice.length < b.slice.length;
  }

  // A byte of an n-gram with its spaces; those that pad the text are not stored.
  char byte_at(std::size_t rule, const Slice& slice, std::size_t i) const {
    const std::string_view text = (rules_[rule].kind.unit == Unit::word ? analyzed_ : texts_)[slice.text];
    const std::size_t at = slice.begin + i;
    return at == 0 || at > text.size() ? ' ' : text[at - 1];
  }

  std::string bytes_at(std::size_t rule, const Slice& slice) const {
    std::string bytes(slice.length, ' ');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(rule, slice, i);
    return bytes;
  }

  const StringsView& texts_;
  const StringsView& analyzed_;
  bool has_analyzed_;
  ShownTexts shown_;
  std::vector<std::size_t> chunks_{0};  // where each chunk of texts starts, and the end
  std::span<const VocabularyRule> rules_;
  std::size_t budget_;
  unsigned n_threads_;
  std::vector<Buffer<NGramCandidate>> candidates_;
  std::vector<std::uint64_t> n_distinct_;
};

}  // namespace

std::vector<CountedNGrams> count_ngrams(const StringsView& normalized, const StringsView& analyzed,
                                        std::span<const std::uint8_t> is_shown, std::span<const VocabularyRule> rules,
                                        std::size_t budget, unsigned n_threads, bool by_key) {
  if (analyzed.size() != normalized.size())
    throw std::invalid_argument("there must be as many analyzed as normalized texts");
  if (!is_shown.empty() && is_shown.size() != normalized.size())
    throw std::invalid_argument("there must be as many marks as texts");
  if (normalized.size() > std::numeric_limits<std::uint32_t>::max())
    throw std::length_error("at most 4294967295 texts can be counted");
  for (std::size_t i = 0; i < normalized.size(); ++i)
    if (normalized[i].size() > kMaxBytes || analyzed[i].size() > std::max(kMaxBytes, kMaxAnalyzed))
      throw std::invalid_argument("texts must be normalized first; one is too long");
  return NGramCounter(normalized, analyzed, is_shown, rules, budget, n_threads).run(by_key);
}

}  // namespace matchset
