// Bindings of text normalization, n-grams and vocabularies.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "markup.hpp"
#include "module.hpp"
#include "ngram_counts.hpp"
#include "python_arrays.hpp"
#include "python_csr.hpp"
#include "python_vocabulary.hpp"
#include "stems.hpp"
#include "text.hpp"
#include "unicode.hpp"
#include "vectorize.hpp"

namespace matchset {
namespace {

using StringsIn = std::pair<In<std::uint8_t>, In<std::int64_t>>;  // data, offsets

StringsOut py_normalize(const In<std::uint8_t>& data, const In<std::int64_t>& offsets, unsigned threads) {
  const auto texts = to_strings(data, offsets);
  return from_strings(without_gil([&] { return normalize_all(texts, threads); }));
}

StringsOut py_clean_markup(const In<std::uint8_t>& data, const In<std::int64_t>& offsets) {
  const auto texts = to_strings(data, offsets);
  return from_strings(without_gil([&] { return clean_all(texts); }));
}

nb::list py_count_ngrams(const In<std::uint8_t>& data, const In<std::int64_t>& offsets, const In<std::uint8_t>& units,
                         const In<std::uint8_t>& lengths, const In<std::int64_t>& limits,
                         const In<std::int64_t>& min_df, std::size_t budget, unsigned threads,
                         const std::optional<StringsIn>& analyzed, const std::optional<In<std::uint8_t>>& is_shown,
                         bool by_key) {
  const auto texts = to_strings(data, offsets);
  const auto words = analyzed ? to_strings(analyzed->first, analyzed->second) : texts;
  const auto kinds = to_kinds(units, lengths);
  if (limits.size() != kinds.size() || min_df.size() != kinds.size())
    throw std::invalid_argument("limits and min_df must hold one value per kind");
  std::vector<VocabularyRule> rules;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    rules.push_back(
        {kinds[i], static_cast<std::size_t>(limits.data()[i]), static_cast<std::uint32_t>(min_df.data()[i])});
  const auto marks = is_shown ? to_span(*is_shown) : std::span<const std::uint8_t>();
  nb::list result;
  for (CountedNGrams& kind :
       without_gil([&] { return count_ngrams(texts, words, marks, rules, budget, threads, by_key); }))
    result.append(nb::make_tuple(to_numpy<std::uint64_t>(std::move(kind.keys)),
                                 to_numpy<std::uint32_t>(std::move(kind.df)),
                                 nb::cast(from_strings(std::move(kind.names))),
                                 to_numpy<std::uint8_t>(std::move(kind.is_shown)), kind.n_distinct));
  return result;
}

Out<std::uint8_t> py_lay_out_slots(const In<std::uint64_t>& keys, const In<float>& idf, std::uint64_t n_homes,
                                   unsigned threads) {
  if (idf.size() != keys.size()) throw std::invalid_argument("keys and idf must be of one length");
  if (n_homes < 1) throw std::invalid_argument("n_homes must be at least 1");
  const std::vector<Slot> slots =
      without_gil([&] { return lay_out_slots(to_span(keys), to_span(idf), n_homes, threads); });
  std::vector<std::uint8_t> bytes(slots.size() * sizeof(Slot));
  std::memcpy(bytes.data(), slots.data(), bytes.size());
  return to_numpy<std::uint8_t>(std::move(bytes));
}

std::pair<Out<std::uint32_t>, Out<float>> py_vectorize(const Vocabulary& self, nb::handle text) {
  const QueryFeatures& features = self.vectorize(text);
  return {to_numpy<std::uint32_t>(std::vector(features.ids)), to_numpy<float>(std::vector(features.weights))};
}

CsrOut py_vectorize_all(const Vocabulary& self, const In<std::uint8_t>& data, const In<std::int64_t>& offsets,
                        unsigned threads) {
  const auto texts = to_strings(data, offsets);
  SparseRows rows = without_gil([&] { return vectorize_all(texts, self.view(), threads); });
  return {to_numpy<std::int64_t>(std::move(rows.starts)), to_numpy<std::int32_t>(std::move(rows.ids)),
          to_numpy<float>(std::move(rows.weights))};
}

using WordsOut = std::tuple<Out<std::int64_t>, Out<std::uint64_t>, Out<std::int32_t>, Out<float>>;

WordsOut py_hash_words(const Vocabulary& self, const In<std::uint8_t>& data, const In<std::int64_t>& offsets,
                       std::uint32_t kind) {
  const auto texts = to_strings(data, offsets);
  WordRows rows = without_gil([&] { return hash_words(texts, self.view(), kind); });
  return {to_numpy<std::int64_t>(std::move(rows.starts)), to_numpy<std::uint64_t>(std::move(rows.keys)),
          to_numpy<std::int32_t>(std::move(rows.ids)), to_numpy<float>(std::move(rows.counts))};
}

Out<std::int64_t> py_count_unknown(const Vocabulary& self, const In<std::uint8_t>& data,
                                   const In<std::int64_t>& offsets, unsigned threads) {
  const auto texts = to_strings(data, offsets);
  return to_numpy<std::int64_t>(without_gil([&] { return count_unknown(texts, self.view(), threads); }));
}

std::pair<StringsOut, Out<std::uint64_t>> py_list_ngrams(nb::handle text, const In<std::uint8_t>& units,
                                                         const In<std::uint8_t>& lengths, const Stems* stems) {
  const auto kinds = to_kinds(units, lengths);
  nb::object owner;
  TextScratch scratch;
  PaddedText surface, analyzed;
  normalize(query_to_utf8(text, owner), scratch, surface.open());
  surface.close();
  if (stems != nullptr) {
    append_stems(surface.text(), stems->view(), analyzed.open());
    analyzed.close();
  }
  OwnedStrings shown;
  std::vector<std::uint64_t> keys;
  for (const NGramKind kind : kinds) {
    PaddedText& padded = stems != nullptr && kind.unit == Unit::word ? analyzed : surface;
    padded.for_each(kind, [&](std::size_t begin, std::size_t length) {
      const std::string_view ngram = padded.slice(begin, length);
      append_shown(ngram, shown);
      keys.push_back(ngram_key(ngram, kind));
    });
  }
  return {from_strings(std::move(shown)), to_numpy<std::uint64_t>(std::move(keys))};
}

std::tuple<Out<std::uint8_t>, Out<std::uint8_t>, Out<std::int64_t>> py_lay_out_stems(const StringsIn& words,
                                                                                     const StringsIn& stems,
                                                                                     const In<std::uint8_t>& is_shown,
                                                                                     std::uint64_t n_homes) {
  const auto known = to_strings(words.first, words.second), found = to_strings(stems.first, stems.second);
  if (found.size() != known.size() || is_shown.size() != known.size())
    throw std::invalid_argument("words, stems and is_shown must be of one length");
  if (n_homes < 1) throw std::invalid_argument("n_homes must be at least 1");
  StemTable table = lay_out_stems(known, found, to_span(is_shown), n_homes);
  std::vector<std::uint8_t> bytes(table.slots.size() * sizeof(StemSlot));
  std::memcpy(bytes.data(), table.slots.data(), bytes.size());
  auto [data, offsets] = from_strings(std::move(table.suffixes));
  return {to_numpy<std::uint8_t>(std::move(bytes)), std::move(data), std::move(offsets)};
}

StringsOut py_analyze(const Stems& self, const In<std::uint8_t>& data, const In<std::int64_t>& offsets,
                      unsigned threads) {
  const auto texts = to_strings(data, offsets);
  return from_strings(without_gil([&] { return stem_all(texts, self.view(), threads); }));
}

std::pair<StringsOut, Out<std::uint8_t>> py_list_words(const In<std::uint8_t>& data, const In<std::int64_t>& offsets,
                                                       unsigned threads,
                                                       const std::optional<In<std::uint8_t>>& is_shown) {
  const auto texts = to_strings(data, offsets);
  const auto marks = is_shown ? to_span(*is_shown) : std::span<const std::uint8_t>();
  if (is_shown && marks.size() != texts.size()) throw std::invalid_argument("there must be as many marks as texts");
  WordList found = without_gil([&] { return list_words(texts, marks, threads); });
  return {from_strings(std::move(found.words)), to_numpy<std::uint8_t>(std::move(found.is_shown))};
}

std::tuple<Out<std::int64_t>, Out<std::int32_t>, StringsOut, Out<std::uint8_t>> py_number_words(
    const In<std::uint8_t>& data, const In<std::int64_t>& offsets, const In<std::uint8_t>& is_shown, unsigned threads) {
  const auto texts = to_strings(data, offsets);
  if (is_shown.size() != texts.size()) throw std::invalid_argument("there must be as many marks as texts");
  NumberedWords found = without_gil([&] { return number_words(texts, to_span(is_shown), threads); });
  return {to_numpy<std::int64_t>(std::move(found.offsets)), to_numpy<std::int32_t>(std::move(found.words)),
          from_strings(std::move(found.distinct.words)), to_numpy<std::uint8_t>(std::move(found.distinct.is_shown))};
}

std::tuple<Out<std::int64_t>, std::int64_t, std::int64_t> py_count_words(const StringsIn& normalized,
                                                                         const StringsIn& wanted, unsigned threads) {
  const auto texts = to_strings(normalized.first, normalized.second);
  const auto words = to_strings(wanted.first, wanted.second);
  WordCounts found = without_gil([&] { return count_words(texts, words, threads); });
  return {to_numpy<std::int64_t>(std::move(found.counts)), found.n_words, found.n_unspaced};
}

void bind_stems(nb::module_& m) {
  nb::class_<Stems>(m, "Stems", "Stems of known words over borrowed, possibly memory-mapped arrays.")
      .def(nb::init<In<std::uint8_t>, std::uint64_t, In<std::uint8_t>, In<std::int64_t>, nb::object>(),
           "slots"_a.noconvert(), "n_homes"_a, "data"_a.noconvert(), "offsets"_a.noconvert(), "stem_unknown"_a.none(),
           nb::sig("def __init__(self, slots: NDArray[numpy.uint8], n_homes: int, data: NDArray[numpy.uint8], "
                   "offsets: NDArray[numpy.int64], "
                   "stem_unknown: collections.abc.Callable[[str], str] | None) -> None"))
      .def("analyze", &py_analyze, "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a,
           "Normalized texts with stems for words; a text of stop words alone stays as it is.");
  m.def("lay_out_stems", &py_lay_out_stems, "words"_a.noconvert(), "stems"_a.noconvert(), "is_shown"_a.noconvert(),
        "n_homes"_a, "Hash table of words and their stems: slots, and the suffixes as data and offsets.");
  m.def("list_words", &py_list_words, "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a,
        "is_shown"_a.noconvert().none() = nb::none(),
        "Distinct words of normalized texts, without scripts that have no spaces, in the order in which they first "
        "occur, and whether a text that `is_shown` has each.");
  m.def("number_words", &py_number_words, "data"_a.noconvert(), "offsets"_a.noconvert(), "is_shown"_a.noconvert(),
        "threads"_a,
        "Words of normalized texts: where those of each text start, the number of each, the distinct words in the "
        "order of their numbers, and whether a text that `is_shown` has each.");
  m.def(
      "count_words", &py_count_words, "normalized"_a.noconvert(), "wanted"_a.noconvert(), "threads"_a,
      "How often normalized texts have each wanted word or \"-ending\" of others, the longest; all words, and words of "
      "a script without spaces.");
}

void bind_vocabulary(nb::module_& m) {
  nb::class_<Vocabulary>(m, "Vocabulary", "Known n-grams over borrowed, possibly memory-mapped arrays.")
      .def(nb::init<In<std::uint8_t>, std::uint64_t, const In<std::uint8_t>&, const In<std::uint8_t>&, std::uint32_t,
                    std::uint32_t, In<float>, const Stems*>(),
           nb::keep_alive<1, 9>(), "slots"_a.noconvert(), "n_homes"_a, "units"_a.noconvert(), "lengths"_a.noconvert(),
           "n_known"_a, "n_buckets"_a, "unknown_idf"_a.noconvert(), "stems"_a.none() = nb::none())
      .def("vectorize", &py_vectorize, "text"_a.none(),
           nb::sig("def vectorize(self, text: str) -> tuple[NDArray[numpy.uint32], NDArray[numpy.float32]]"),
           "Feature ids (ascending) and weights of one text; empty if no n-gram is known.")
      .def("vectorize_all", &py_vectorize_all, "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a,
           "CSR rows of texts: starts, ids, weights.")
      .def("hash_words", &py_hash_words, "data"_a.noconvert(), "offsets"_a.noconvert(), "kind"_a,
           "Words of texts: starts; key, feature or -1, and count of each. `kind` is that of single words.")
      .def("count_unknown", &py_count_unknown, "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a,
           "Number of texts in which each unknown id occurs.");
}

}  // namespace

void bind_features(nb::module_& m) {
  bind_stems(m);
  m.def("unicode_version", &unicode_version, "Version of the Unicode tables compiled in.");
  m.def("normalize", &py_normalize, "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a,
        "Normalized form of each text.");
  m.def("clean_markup", &py_clean_markup, "data"_a.noconvert(), "offsets"_a.noconvert(),
        "Each text without HTML tags, its entities decoded; texts without markup stay as they are.");
  m.def("count_ngrams", &py_count_ngrams, "data"_a.noconvert(), "offsets"_a.noconvert(), "units"_a.noconvert(),
        "lengths"_a.noconvert(), "limits"_a.noconvert(), "min_df"_a.noconvert(), "budget"_a, "threads"_a,
        "analyzed"_a.noconvert().none() = nb::none(), "is_shown"_a.noconvert().none() = nb::none(), nb::kw_only(),
        "by_key"_a = false,
        nb::sig("def count_ngrams(data: NDArray[numpy.uint8], offsets: NDArray[numpy.int64], "
                "units: NDArray[numpy.uint8], lengths: NDArray[numpy.uint8], limits: NDArray[numpy.int64], "
                "min_df: NDArray[numpy.int64], budget: int, threads: int, "
                "analyzed: tuple[NDArray[numpy.uint8], NDArray[numpy.int64]] | None = None, "
                "is_shown: NDArray[numpy.uint8] | None = None, *, by_key: bool = False) -> "
                "list[tuple[NDArray[numpy.uint64], NDArray[numpy.uint32], "
                "tuple[NDArray[numpy.uint8], NDArray[numpy.int64]], NDArray[numpy.uint8], int]]"),
        "Per kind, the kept n-grams of normalized texts by falling frequency, or by key: keys, df, the n-grams with "
        "their spaces, whether a text that `is_shown` has each, and the number of distinct ones. N-grams of words are "
        "those of `analyzed`, if given.");
  m.def("list_ngrams", &py_list_ngrams, "text"_a.none(), "units"_a.noconvert(), "lengths"_a.noconvert(),
        "stems"_a.none() = nb::none(),
        nb::sig("def list_ngrams(text: str, units: NDArray[numpy.uint8], lengths: NDArray[numpy.uint8], "
                "stems: Stems | None = None) -> "
                "tuple[tuple[NDArray[numpy.uint8], NDArray[numpy.int64]], NDArray[numpy.uint64]]"),
        "The n-grams of a text as people read them, kind by kind, and their keys.");
  m.def("lay_out_slots", &py_lay_out_slots, "keys"_a.noconvert(), "idf"_a.noconvert(), "n_homes"_a, "threads"_a,
        "Hash table of n-grams as bytes; id i is the i-th key.");
  bind_vocabulary(m);
}

}  // namespace matchset
