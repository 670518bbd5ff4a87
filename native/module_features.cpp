// Bindings of n-grams and vocabularies.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "python_arrays.hpp"
#include "python_vocabulary.hpp"
#include "text.hpp"
#include "vectorize.hpp"
#include "ngram_counts.hpp"

namespace nb = nanobind;
using namespace nb::literals;

void bind_features(nanobind::module_& m) {
  using namespace matchset;
  m.def(
      "count_ngrams",
      [](const In<std::uint8_t>& data, const In<std::int64_t>& offsets, const In<std::uint8_t>& units,
         const In<std::uint8_t>& lengths, const In<std::int64_t>& limits, const In<std::int64_t>& min_df,
         std::size_t budget, unsigned threads) {
        const auto texts = to_strings(data, offsets);
        const auto kinds = to_kinds(units, lengths);
        if (limits.size() != kinds.size() || min_df.size() != kinds.size())
          throw std::invalid_argument("limits and min_df must hold one value per kind");
        std::vector<VocabularyRule> rules;
        for (std::size_t i = 0; i < kinds.size(); ++i)
          rules.push_back({kinds[i], static_cast<std::size_t>(limits.data()[i]), static_cast<std::uint32_t>(min_df.data()[i])});
        std::vector<CountedNGrams> counted;
        {
          nb::gil_scoped_release release;
          counted = count_ngrams(texts, rules, budget, threads);
        }
        nb::list result;
        for (auto& kind : counted)
          result.append(nb::make_tuple(to_numpy<std::uint64_t>(std::move(kind.keys)), to_numpy<std::uint32_t>(std::move(kind.df)),
                                       nb::cast(from_strings(std::move(kind.shown))), kind.n_distinct));
        return result;
      },
      "data"_a.noconvert(), "offsets"_a.noconvert(), "units"_a.noconvert(), "lengths"_a.noconvert(), "limits"_a.noconvert(),
      "min_df"_a.noconvert(), "budget"_a, "threads"_a,
      nb::sig("def count_ngrams(data: NDArray[numpy.uint8], offsets: NDArray[numpy.int64], units: NDArray[numpy.uint8], "
              "lengths: NDArray[numpy.uint8], limits: NDArray[numpy.int64], min_df: NDArray[numpy.int64], budget: int, "
              "threads: int) -> list[tuple[NDArray[numpy.uint64], NDArray[numpy.uint32], "
              "tuple[NDArray[numpy.uint8], NDArray[numpy.int64]], int]]"),
      "Per kind, the kept n-grams of normalised texts by falling frequency: keys, df, shown strings, and how many "
      "distinct ones there were.");
  m.def(
      "lay_out_slots",
      [](const In<std::uint64_t>& keys, const In<float>& idf, std::uint64_t n_homes) {
        if (idf.size() != keys.size()) throw std::invalid_argument("keys and idf must be of one length");
        if (n_homes < 1) throw std::invalid_argument("n_homes must be at least 1");
        auto slots = lay_out_slots(to_span(keys), to_span(idf), n_homes);
        std::vector<std::uint8_t> bytes(slots.size() * sizeof(Slot));
        std::memcpy(bytes.data(), slots.data(), bytes.size());
        return to_numpy<std::uint8_t>(std::move(bytes));
      },
      "keys"_a.noconvert(), "idf"_a.noconvert(), "n_homes"_a, "Hash table of n-grams as bytes; id i is the i-th key.");
  nb::class_<Vocabulary>(m, "Vocabulary", "Known n-grams over borrowed, possibly memory-mapped arrays.")
      .def(nb::init<In<std::uint8_t>, std::uint64_t, const In<std::uint8_t>&, const In<std::uint8_t>&, std::uint32_t, std::uint32_t, In<float>>(),
           "slots"_a.noconvert(), "n_homes"_a, "units"_a.noconvert(), "lengths"_a.noconvert(), "n_known"_a, "n_buckets"_a,
           "unknown_idf"_a.noconvert())
      .def(
          "vectorize",
          [](const Vocabulary& self, nb::handle text) {
            const auto& features = self.vectorize(text);
            return std::pair(to_numpy<std::uint32_t>(std::vector(features.ids)), to_numpy<float>(std::vector(features.weights)));
          },
          "text"_a.none(), nb::sig("def vectorize(self, text: str) -> tuple[NDArray[numpy.uint32], NDArray[numpy.float32]]"),
          "Feature ids (ascending) and weights of one text; empty where no n-gram is known.")
      .def(
          "vectorize_into",
          [](const Vocabulary& self, nb::handle text, InOut<std::uint32_t>& ids, InOut<float>& weights) {
            const auto& features = self.vectorize(text);
            if (features.ids.size() > ids.size() || features.ids.size() > weights.size())
              throw std::invalid_argument("buffers must hold " + std::to_string(features.ids.size()) + " features; got room for " +
                                          std::to_string(std::min(ids.size(), weights.size())));
            std::copy(features.ids.begin(), features.ids.end(), ids.data());
            std::copy(features.weights.begin(), features.weights.end(), weights.data());
            return features.ids.size();
          },
          "text"_a.none(), "ids"_a.noconvert(), "weights"_a.noconvert(),
          nb::sig("def vectorize_into(self, text: str, ids: NDArray[numpy.uint32], weights: NDArray[numpy.float32]) -> int"),
          "Like vectorize, into the caller's buffers; returns how many features were written.")
      .def(
          "vectorize_all",
          [](const Vocabulary& self, const In<std::uint8_t>& data, const In<std::int64_t>& offsets, unsigned threads) {
            const auto texts = to_strings(data, offsets);
            SparseRows rows;
            {
              nb::gil_scoped_release release;
              rows = vectorize_all(texts, self.view(), threads);
            }
            return std::tuple(to_numpy<std::int64_t>(std::move(rows.starts)), to_numpy<std::int32_t>(std::move(rows.ids)),
                              to_numpy<float>(std::move(rows.weights)));
          },
          "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a, "CSR rows of texts: starts, ids, weights.")
      .def(
          "count_unknown",
          [](const Vocabulary& self, const In<std::uint8_t>& data, const In<std::int64_t>& offsets, unsigned threads) {
            const auto texts = to_strings(data, offsets);
            std::vector<std::int64_t> counts;
            {
              nb::gil_scoped_release release;
              counts = count_unknown(texts, self.view(), threads);
            }
            return to_numpy<std::int64_t>(std::move(counts));
          },
          "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a, "In how many texts each unknown id occurs.");
  m.def(
      "list_ngrams",
      [](nb::handle text, const In<std::uint8_t>& units, const In<std::uint8_t>& lengths) {
        const auto kinds = to_kinds(units, lengths);
        if (!PyUnicode_Check(text.ptr()))
          throw nb::type_error((std::string("query must be str; got ") + Py_TYPE(text.ptr())->tp_name).c_str());
        nb::object keep;
        TextScratch scratch;
        PaddedText padded;
        normalize(to_utf8(text, keep), scratch, padded.open());
        padded.close();
        OwnedStrings shown;
        std::vector<std::uint64_t> keys;
        for (const auto kind : kinds)
          padded.for_each(kind, [&](std::size_t begin, std::size_t length) {
            const auto ngram = padded.slice(begin, length);
            append_shown(ngram, shown);
            keys.push_back(ngram_key(ngram, kind));
          });
        return std::pair(from_strings(std::move(shown)), to_numpy<std::uint64_t>(std::move(keys)));
      },
      "text"_a.none(), "units"_a.noconvert(), "lengths"_a.noconvert(),
      nb::sig("def list_ngrams(text: str, units: NDArray[numpy.uint8], lengths: NDArray[numpy.uint8]) -> "
              "tuple[tuple[NDArray[numpy.uint8], NDArray[numpy.int64]], NDArray[numpy.uint64]]"),
      "The n-grams of a text as people read them, kind by kind, and their keys.");
}
