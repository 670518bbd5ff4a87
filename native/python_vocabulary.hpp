// A vocabulary as Python holds it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "python_arrays.hpp"
#include "vectorize.hpp"
#include "vocabulary.hpp"

namespace matchset {

inline std::vector<NGramKind> to_kinds(const In<std::uint8_t>& units, const In<std::uint8_t>& lengths) {
  if (units.size() != lengths.size()) throw std::invalid_argument("units and lengths must be of one length");
  std::vector<NGramKind> kinds;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units.data()[i] > 1 || lengths.data()[i] == 0)
      throw std::invalid_argument("a kind must have unit 0 or 1 and a length of at least 1");
    kinds.push_back({static_cast<Unit>(units.data()[i]), lengths.data()[i]});
  }
  return kinds;
}

// Stems that keep their arrays alive, and ask Python for the stem of a word that has none.
class Stems {
 public:
  Stems(In<std::uint8_t> slots, std::uint64_t n_homes, In<std::uint8_t> data, In<std::int64_t> offsets,
        nanobind::object stem_unknown)
      : slots_(std::move(slots)), data_(std::move(data)), offsets_(std::move(offsets)), stem_(std::move(stem_unknown)) {
    const std::size_t n_slots = slots_.size() / sizeof(StemSlot);
    if (slots_.size() % sizeof(StemSlot) != 0 ||
        reinterpret_cast<std::uintptr_t>(slots_.data()) % alignof(StemSlot) != 0)
      throw std::invalid_argument("slots of stems must be whole and aligned");
    if (n_homes < 1 || n_homes > n_slots)
      throw std::invalid_argument("n_homes of stems must be from 1 to the number of slots");
    view_.slots = {reinterpret_cast<const StemSlot*>(slots_.data()), n_slots};
    view_.n_homes = n_homes;
    view_.suffixes = to_strings(data_, offsets_);
    for (std::size_t i = 0; i < view_.suffixes.size(); ++i)
      if (view_.suffixes[i].size() > kMaxSuffix) throw std::invalid_argument("a suffix of a stem is too long");
    if (!stem_.is_none())
      view_.stem_unknown = [this](std::string_view word, std::vector<char>& out) { ask(word, out); };
  }
  Stems(const Stems&) = delete;
  Stems& operator=(const Stems&) = delete;

  const StemsView& view() const { return view_; }

 private:
  // Called from any thread, with or without the GIL.
  void ask(std::string_view word, std::vector<char>& out) const {
    const nanobind::gil_scoped_acquire gil;
    const nanobind::object stem = stem_(nanobind::str(word.data(), word.size()));
    nanobind::object owner;
    const std::string_view bytes = query_to_utf8(stem, owner);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }

  In<std::uint8_t> slots_, data_;
  In<std::int64_t> offsets_;
  nanobind::object stem_;
  StemsView view_;
};

// A vocabulary that keeps its arrays alive.
class Vocabulary {
 public:
  Vocabulary(In<std::uint8_t> slots, std::uint64_t n_homes, const In<std::uint8_t>& units,
             const In<std::uint8_t>& lengths, std::uint32_t n_known, std::uint32_t n_buckets, In<float> unknown_idf,
             const Stems* stems)
      : slots_(std::move(slots)), unknown_idf_(std::move(unknown_idf)) {
    const std::size_t n_slots = slots_.size() / sizeof(Slot);
    if (slots_.size() % sizeof(Slot) != 0 || reinterpret_cast<std::uintptr_t>(slots_.data()) % alignof(Slot) != 0)
      throw std::invalid_argument("slots must be whole and aligned");
    if (n_homes < 1 || n_homes > n_slots) throw std::invalid_argument("n_homes must be from 1 to the number of slots");
    view_.slots = {reinterpret_cast<const Slot*>(slots_.data()), n_slots};
    view_.n_homes = n_homes;
    view_.kinds = to_kinds(units, lengths);
    view_.n_known = n_known;
    view_.n_buckets = n_buckets;
    view_.unknown_idf = to_span(unknown_idf_);
    if (stems != nullptr) view_.stems = stems->view();  // Python keeps it alive as long as this
    if (unknown_idf_.size() != view_.kinds.size() * n_buckets)
      throw std::invalid_argument("unknown_idf must hold one value per kind and bucket");
    if (n_known + view_.unknown_idf.size() > std::size_t{std::numeric_limits<std::int32_t>::max()})
      throw std::invalid_argument("at most 2147483647 features are possible");
  }

  // The features of one text, in memory that is valid until the next call in this thread.
  const QueryFeatures& vectorize(nanobind::handle text) const {
    static thread_local QueryFeatures features;
    nanobind::object owner;
    // A few microseconds: not worth releasing the GIL.
    matchset::vectorize(query_to_utf8(text, owner), view_, features);
    return features;
  }

  const VocabularyView& view() const { return view_; }

 private:
  In<std::uint8_t> slots_;
  In<float> unknown_idf_;
  VocabularyView view_;
};

}  // namespace matchset
