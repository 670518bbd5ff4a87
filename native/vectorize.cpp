#include "vectorize.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>

#include "prefetch.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kChunk = 2048;  // texts that a thread takes at a time

std::uint32_t unknown_index(const QueryFeatures::Probe& probe, const VocabularyView& vocabulary) {
  const std::uint64_t spread = probe.key << 32 | probe.key >> 32;  // the high bits select the slot
  return probe.kind * vocabulary.n_buckets + static_cast<std::uint32_t>(home_of(spread, vocabulary.n_buckets));
}

void find_probes(const VocabularyView& vocabulary, QueryFeatures& f) {
  f.probes.clear();
  for (std::uint32_t kind = 0; kind < vocabulary.kinds.size(); ++kind) {
    const bool has_stems = vocabulary.stems && vocabulary.kinds[kind].unit == Unit::word;
    const bool may_be_code = vocabulary.kinds[kind].unit == Unit::word && vocabulary.kinds[kind].n > 1;
    PaddedText& text = has_stems ? f.analyzed : f.padded;
    text.for_each(vocabulary.kinds[kind], [&](std::size_t begin, std::size_t length) {
      const std::string_view slice = text.slice(begin, length);
      const std::uint64_t key = ngram_key(slice, vocabulary.kinds[kind]);
      prefetch_far(&vocabulary.slots[home_of(key, vocabulary.n_homes)]);
      const bool is_code = may_be_code && slice.find_first_of("0123456789") != slice.npos;
      f.probes.push_back({.key = key, .kind = kind, .is_code = is_code});
    });
  }
}

// Looks up every n-gram. Unknown ones count only if at least one is known.
void find_hits(const VocabularyView& vocabulary, QueryFeatures& f) {
  f.hits.clear();
  bool is_known = false;
  for (auto& probe : f.probes) {
    if (const Slot* slot = vocabulary.find(probe.key)) {
      probe.id = slot->id;
      f.hits.push_back({slot->id, slot->idf});
      is_known = true;
    } else if (vocabulary.n_buckets > 0) {
      const std::uint32_t index = unknown_index(probe, vocabulary);
      if (const float idf = vocabulary.unknown_idf[index]; idf > 0) f.hits.push_back({vocabulary.n_known + index, idf});
    }
  }
  if (!is_known) f.hits.clear();
}

// Adds up repeated n-grams (an unknown id counts once) and scales the row to unit length.
void weigh_hits(const VocabularyView& vocabulary, QueryFeatures& f) {
  std::sort(f.hits.begin(), f.hits.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  double norm = 0;
  for (std::size_t at = 0; at < f.hits.size();) {
    std::size_t end = at + 1;
    while (end < f.hits.size() && f.hits[end].id == f.hits[at].id) ++end;
    const double tf = f.hits[at].id < vocabulary.n_known ? static_cast<double>(end - at) : 1.0;
    const double weight = tf * static_cast<double>(f.hits[at].idf);
    norm += weight * weight;
    f.ids.push_back(f.hits[at].id);
    f.weights.push_back(static_cast<float>(weight));
    at = end;
  }
  const double scale = norm > 0 ? 1 / std::sqrt(norm) : 0;
  for (float& weight : f.weights) weight = static_cast<float>(static_cast<double>(weight) * scale);
}

}  // namespace

void vectorize(std::string_view text, const VocabularyView& vocabulary, QueryFeatures& f) {
  f.ids.clear();
  f.weights.clear();
  normalize(text, f.text, f.padded.open());
  f.padded.close();
  if (vocabulary.stems) {
    append_stems(f.padded.text(), *vocabulary.stems, f.analyzed.open());
    f.analyzed.close();
  }
  find_probes(vocabulary, f);
  find_hits(vocabulary, f);
  weigh_hits(vocabulary, f);
}

SparseRows vectorize_all(const StringsView& texts, const VocabularyView& vocabulary, unsigned n_threads) {
  const std::size_t n_chunks = (texts.size() + kChunk - 1) / kChunk;
  std::vector<SparseRows> parts(n_chunks);
  parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
    QueryFeatures features;
    SparseRows& part = parts[chunk];
    const std::size_t begin = chunk * kChunk, end = std::min(texts.size(), begin + kChunk);
    const auto n_bytes = static_cast<std::size_t>(texts.offsets[end] - texts.offsets[begin]);
    part.ids.reserve(std::min(n_bytes + n_bytes / 2, 64 * kChunk));  // about a trigram per byte, and the words
    part.weights.reserve(part.ids.capacity());
    for (std::size_t i = begin; i < end; ++i) {
      vectorize(texts[i], vocabulary, features);
      part.ids.insert(part.ids.end(), features.ids.begin(), features.ids.end());
      part.weights.insert(part.weights.end(), features.weights.begin(), features.weights.end());
      part.starts.push_back(static_cast<std::int64_t>(part.ids.size()));
    }
  });
  SparseRows all;
  std::vector<std::size_t> bases{0};
  all.starts.reserve(texts.size() + 1);
  all.starts.push_back(0);
  for (const SparseRows& part : parts) {
    for (const std::int64_t end : part.starts) all.starts.push_back(static_cast<std::int64_t>(bases.back()) + end);
    bases.push_back(bases.back() + part.ids.size());
  }
  all.ids.resize(bases.back());
  all.weights.resize(bases.back());
  parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
    const auto base = static_cast<std::ptrdiff_t>(bases[chunk]);
    std::copy(parts[chunk].ids.begin(), parts[chunk].ids.end(), all.ids.begin() + base);
    std::copy(parts[chunk].weights.begin(), parts[chunk].weights.end(), all.weights.begin() + base);
    parts[chunk] = {};
  });
  return all;
}

WordRows hash_words(const StringsView& texts, const VocabularyView& vocabulary, std::uint32_t kind) {
  WordRows rows;
  rows.starts.push_back(0);
  QueryFeatures features;
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    vectorize(texts[i], vocabulary, features);
    keys.clear();
    for (const auto& probe : features.probes)
      if (probe.kind == kind) keys.push_back(probe.key);
    std::sort(keys.begin(), keys.end());
    for (std::size_t at = 0; at < keys.size(); ++at) {
      if (at > 0 && keys[at] == keys[at - 1]) {
        rows.counts.back() += 1;
        continue;
      }
      const Slot* slot = vocabulary.find(keys[at]);
      rows.keys.push_back(keys[at]);
      rows.ids.push_back(slot ? static_cast<std::int32_t>(slot->id) : -1);
      rows.counts.push_back(1);
    }
    rows.starts.push_back(static_cast<std::int64_t>(rows.keys.size()));
  }
  return rows;
}

std::vector<std::int64_t> count_unknown(const StringsView& texts, const VocabularyView& vocabulary,
                                        unsigned n_threads) {
  const std::size_t n_chunks = (texts.size() + kChunk - 1) / kChunk;
  std::vector<std::int64_t> counts(vocabulary.unknown_idf.size());
  std::mutex counts_lock;
  parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
    QueryFeatures features;
    std::vector<std::int64_t> part(counts.size());
    for (std::size_t i = chunk * kChunk; i < std::min(texts.size(), (chunk + 1) * kChunk); ++i) {
      vectorize(texts[i], vocabulary, features);
      for (const std::uint32_t id : features.ids)
        if (id >= vocabulary.n_known) ++part[id - vocabulary.n_known];
    }
    const std::lock_guard guard(counts_lock);  // sums of integers: the order does not matter
    std::transform(part.begin(), part.end(), counts.begin(), counts.begin(), std::plus<>());
  });
  return counts;
}

}  // namespace matchset
