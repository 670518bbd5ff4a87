// Bindings of text normalization, n-grams and vocabularies.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "module.hpp"
#include "ngram_counts.hpp"
#include "python_arrays.hpp"
#include "python_csr.hpp"
#include "python_vocabulary.hpp"
#include "text.hpp"
#include "unicode.hpp"
#include "vectorize.hpp"

namespace matchset {
namespace {

StringsOut py_normalize(const In<std::uint8_t>& data, const In<std::int64_t>& offsets, unsigned threads) {
  const auto texts = to_strings(data, offsets);
  return from_strings(without_gil([&] { return normalize_all(texts, threads); }));
}

nb::list py_count_ngrams(const In<std::uint8_t>& data, const In<std::int64_t>& offsets, const In<std::uint8_t>& units,
                         const In<std::uint8_t>& lengths, const In<std::int64_t>& limits,
                         const In<std::int64_t>& min_df, std::size_t budget, unsigned threads) {
  const auto texts = to_strings(data, offsets);
  const auto kinds = to_kinds(units, lengths);
  if (limits.size() != kinds.size() || min_df.size() != kinds.size())
    throw std::invalid_argument("limits and min_df must hold one value per kind");
  std::vector<VocabularyRule> rules;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    rules.push_back(
        {kinds[i], static_cast<std::size_t>(limits.data()[i]), static_cast<std::uint32_t>(min_df.data()[i])});
  nb::list result;
  for (CountedNGrams& kind : without_gil([&] { return count_ngrams(texts, rules, budget, threads); }))
    result.append(nb::make_tuple(to_numpy<std::uint64_t>(std::move(kind.keys)),
                                 to_numpy<std::uint32_t>(std::move(kind.df)),
                                 nb::cast(from_strings(std::move(kind.shown))), kind.n_distinct));
  return result;
}

Out<std::uint8_t> py_lay_out_slots(const In<std::uint64_t>& keys, const In<float>& idf, std::uint64_t n_homes) {
  if (idf.size() != keys.size()) throw std::invalid_argument("keys and idf must be of one length");
  if (n_homes < 1) throw std::invalid_argument("n_homes must be at least 1");
  const std::vector<Slot> slots = lay_out_slots(to_span(keys), to_span(idf), n_homes);
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

Out<std::int64_t> py_count_unknown(const Vocabulary& self, const In<std::uint8_t>& data,
                                   const In<std::int64_t>& offsets, unsigned threads) {
  const auto texts = to_strings(data, offsets);
  return to_numpy<std::int64_t>(without_gil([&] { return count_unknown(texts, self.view(), threads); }));
}

std::pair<StringsOut, Out<std::uint64_t>> py_list_ngrams(nb::handle text, const In<std::uint8_t>& units,
                                                         const In<std::uint8_t>& lengths) {
  const auto kinds = to_kinds(units, lengths);
  nb::object owner;
  TextScratch scratch;
  PaddedText padded;
  normalize(query_to_utf8(text, owner), scratch, padded.open());
  padded.close();
  OwnedStrings shown;
  std::vector<std::uint64_t> keys;
  for (const NGramKind kind : kinds)
    padded.for_each(kind, [&](std::size_t begin, std::size_t length) {
      const std::string_view ngram = padded.slice(begin, length);
      append_shown(ngram, shown);
      keys.push_back(ngram_key(ngram, kind));
    });
  return {from_strings(std::move(shown)), to_numpy<std::uint64_t>(std::move(keys))};
}

void bind_vocabulary(nb::module_& m) {
  nb::class_<Vocabulary>(m, "Vocabulary", "Known n-grams over borrowed, possibly memory-mapped arrays.")
      .def(nb::init<In<std::uint8_t>, std::uint64_t, const In<std::uint8_t>&, const In<std::uint8_t>&, std::uint32_t,
                    std::uint32_t, In<float>>(),
           "slots"_a.noconvert(), "n_homes"_a, "units"_a.noconvert(), "lengths"_a.noconvert(), "n_known"_a,
           "n_buckets"_a, "unknown_idf"_a.noconvert())
      .def("vectorize", &py_vectorize, "text"_a.none(),
           nb::sig("def vectorize(self, text: str) -> tuple[NDArray[numpy.uint32], NDArray[numpy.float32]]"),
           "Feature ids (ascending) and weights of one text; empty if no n-gram is known.")
      .def("vectorize_all", &py_vectorize_all, "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a,
           "CSR rows of texts: starts, ids, weights.")
      .def("count_unknown", &py_count_unknown, "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a,
           "Number of texts in which each unknown id occurs.");
}

}  // namespace

void bind_features(nb::module_& m) {
  m.def("unicode_version", &unicode_version, "Version of the Unicode tables compiled in.");
  m.def("normalize", &py_normalize, "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a,
        "Normalized form of each text.");
  m.def("count_ngrams", &py_count_ngrams, "data"_a.noconvert(), "offsets"_a.noconvert(), "units"_a.noconvert(),
        "lengths"_a.noconvert(), "limits"_a.noconvert(), "min_df"_a.noconvert(), "budget"_a, "threads"_a,
        nb::sig("def count_ngrams(data: NDArray[numpy.uint8], offsets: NDArray[numpy.int64], "
                "units: NDArray[numpy.uint8], lengths: NDArray[numpy.uint8], limits: NDArray[numpy.int64], "
                "min_df: NDArray[numpy.int64], budget: int, threads: int) -> list[tuple[NDArray[numpy.uint64], "
                "NDArray[numpy.uint32], tuple[NDArray[numpy.uint8], NDArray[numpy.int64]], int]]"),
        "Per kind, the kept n-grams of normalized texts by falling frequency: keys, df, readable strings, and the "
        "number of distinct ones.");
  m.def("list_ngrams", &py_list_ngrams, "text"_a.none(), "units"_a.noconvert(), "lengths"_a.noconvert(),
        nb::sig("def list_ngrams(text: str, units: NDArray[numpy.uint8], lengths: NDArray[numpy.uint8]) -> "
                "tuple[tuple[NDArray[numpy.uint8], NDArray[numpy.int64]], NDArray[numpy.uint64]]"),
        "The n-grams of a text as people read them, kind by kind, and their keys.");
  m.def("lay_out_slots", &py_lay_out_slots, "keys"_a.noconvert(), "idf"_a.noconvert(), "n_homes"_a,
        "Hash table of n-grams as bytes; id i is the i-th key.");
  bind_vocabulary(m);
}

}  // namespace matchset
