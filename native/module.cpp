// The one file that knows Python: it checks arguments, releases the GIL, and calls the kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrow.hpp"
#include "strings.hpp"
#include "text.hpp"
#include "unicode.hpp"
#include "vectorize.hpp"
#include "vocabulary.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
template <typename T>
using InOut = nb::ndarray<nb::numpy, T, nb::ndim<1>, nb::c_contig>;
template <typename T>
using In = nb::ndarray<nb::numpy, const T, nb::ndim<1>, nb::c_contig>;

// Hands a vector over to NumPy without a copy.
template <typename T, typename Stored = T>
Out<T> to_numpy(std::vector<Stored>&& values) {
  static_assert(sizeof(T) == sizeof(Stored));
  auto* owned = new std::vector<Stored>(std::move(values));  // owned by the capsule below
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<Stored>*>(p); });
  return Out<T>(reinterpret_cast<T*>(owned->data()), {owned->size()}, owner);
}

template <typename T>
std::span<const T> to_span(const In<T>& array) {
  return {array.data(), array.size()};
}

matchset::StringsView to_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets) {
  const matchset::StringsView view{{reinterpret_cast<const char*>(data.data()), data.size()}, to_span(offsets)};
  view.check();
  return view;
}

std::pair<Out<std::uint8_t>, Out<std::int64_t>> from_strings(matchset::OwnedStrings&& strings) {
  return {to_numpy<std::uint8_t>(std::move(strings.data)), to_numpy<std::int64_t>(std::move(strings.offsets))};
}

// UTF-8 of a str. Lone surrogates become three bytes that no decoder accepts: text.hpp reads them as U+FFFD.
std::string_view to_utf8(nb::handle text, nb::object& keep) {
  Py_ssize_t size = 0;
  if (const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size)) return {bytes, static_cast<std::size_t>(size)};
  PyErr_Clear();
  keep = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass"));
  if (!keep.is_valid()) nb::raise_python_error();
  return {PyBytes_AS_STRING(keep.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(keep.ptr()))};
}

std::pair<Out<std::uint8_t>, Out<std::int64_t>> pack_strings(nb::handle texts, const std::string& what) {
  const nb::object items = nb::steal(PySequence_Fast(texts.ptr(), "strings must come as a sequence"));
  if (!items.is_valid()) nb::raise_python_error();
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.ptr());
  matchset::OwnedStrings packed;
  packed.offsets.reserve(static_cast<std::size_t>(n) + 1);
  nb::object keep;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const nb::handle item = PySequence_Fast_GET_ITEM(items.ptr(), i);
    if (!PyUnicode_Check(item.ptr()))
      throw nb::type_error((what + "[" + std::to_string(i) + "] must be str; got " + Py_TYPE(item.ptr())->tp_name).c_str());
    packed.append(to_utf8(item, keep));
  }
  return from_strings(std::move(packed));
}

ArrowArrayStream& to_arrow_stream(nb::handle capsule) {
  auto* stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
  if (!stream) nb::raise_python_error();
  return *stream;
}

// (name, values, nulls): values are an array, (data, offsets) for texts, or (codes, data, offsets).
nb::tuple from_arrow_column(matchset::ArrowColumn&& column) {
  nb::object values;
  switch (column.kind) {
    case matchset::ArrowKind::kText:
      values = nb::cast(from_strings(std::move(column.texts)));
      break;
    case matchset::ArrowKind::kCode: {
      auto [data, offsets] = from_strings(std::move(column.texts));
      values = nb::make_tuple(to_numpy<std::int32_t>(std::move(column.codes)), data, offsets);
      break;
    }
    case matchset::ArrowKind::kInt32:
      values = nb::cast(to_numpy<std::int32_t>(std::move(column.int32s)));
      break;
    case matchset::ArrowKind::kInt64:
      values = nb::cast(to_numpy<std::int64_t>(std::move(column.int64s)));
      break;
    case matchset::ArrowKind::kDouble:
      values = nb::cast(to_numpy<double>(std::move(column.doubles)));
      break;
    case matchset::ArrowKind::kBool:
      values = nb::cast(to_numpy<std::uint8_t>(std::move(column.bools)));
      break;
  }
  return nb::make_tuple(column.name, values, to_numpy<std::uint8_t>(std::move(column.nulls)));
}

nb::list read_arrow_stream(nb::handle capsule, const std::vector<std::string>& coded) {
  ArrowArrayStream& stream = to_arrow_stream(capsule);
  std::vector<matchset::ArrowColumn> columns;
  {
    nb::gil_scoped_release release;
    columns = matchset::read_arrow_stream(stream, coded);
  }
  nb::list out;
  for (auto& column : columns) out.append(from_arrow_column(std::move(column)));
  return out;
}

// A capsule that owns a stream, which `fill` makes.
template <typename Fill>
nb::object to_capsule(Fill&& fill) {
  auto stream = std::make_unique<ArrowArrayStream>();
  fill(*stream);
  PyObject* capsule = PyCapsule_New(stream.get(), "arrow_array_stream", [](PyObject* self) {
    auto* owned = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(self, "arrow_array_stream"));
    if (owned->release) owned->release(owned);
    delete owned;
  });
  if (!capsule) {
    stream->release(stream.get());
    nb::raise_python_error();
  }
  stream.release();  // the capsule's now
  return nb::steal(capsule);
}

using AnyIn = nb::ndarray<nb::numpy, nb::ro, nb::ndim<1>, nb::c_contig>;

// Bytes of n values in an Arrow format that we export, so that no reader leaves a buffer.
std::size_t arrow_bytes(const std::string& format, std::size_t n) {
  if (format == "g") return 8 * n;
  if (format == "i" || format == "tdD") return 4 * n;
  if (format == "C") return n;
  if (format == "b") return (n + 7) / 8;
  throw std::invalid_argument("an Arrow format must be one of g, i, tdD, C, b, U; got " + format);
}

// One column: (name, Arrow format, valid bits or None, values or None, (data, offsets) of texts or None).
matchset::ArrowExportColumn to_export_column(nb::handle item, std::size_t n_rows) {
  const auto [name, format, valid, values, texts] =
      nb::cast<std::tuple<std::string, std::string, nb::object, nb::object, nb::object>>(item);
  matchset::ArrowExportColumn column{name, format, nullptr, nullptr};
  if (!valid.is_none()) {
    const auto bits = nb::cast<In<std::uint8_t>>(valid, false);
    if (bits.size() < arrow_bytes("b", n_rows)) throw std::invalid_argument("valid bits must cover every row");
    column.valid = bits.data();
  }
  if (!texts.is_none()) {
    const auto [data, offsets] = nb::cast<std::pair<In<std::uint8_t>, In<std::int64_t>>>(texts, false);
    column.has_texts = true;
    column.texts = to_strings(data, offsets);
  }
  if (format == "U") {
    if (!column.has_texts || column.texts.size() != n_rows) throw std::invalid_argument("texts must cover every row");
    return column;
  }
  const auto array = nb::cast<AnyIn>(values, false);
  if (array.nbytes() < arrow_bytes(format, n_rows)) throw std::invalid_argument("values must cover every row");
  column.values = array.data();
  return column;
}

nb::object export_arrow_table(const nb::list& columns, std::int64_t n_rows) {
  auto table = std::make_shared<matchset::ArrowExportTable>();
  table->n_rows = n_rows;
  for (const nb::handle item : columns) table->columns.push_back(to_export_column(item, static_cast<std::size_t>(n_rows)));
  // Readers may release from any thread, also while the interpreter shuts down.
  table->owner = std::shared_ptr<void>(nb::object(columns).release().ptr(), [](void* kept) {
    if (!nb::is_alive()) return;
    nb::gil_scoped_acquire acquire;
    Py_DECREF(static_cast<PyObject*>(kept));
  });
  return to_capsule([&](ArrowArrayStream& out) { matchset::export_arrow_table(table, out); });
}

void bind_arrow(nb::module_& m) {
  m.def("read_arrow_stream", &read_arrow_stream, "capsule"_a, "coded"_a,
        nb::sig("def read_arrow_stream(capsule: object, coded: list[str]) -> "
                "list[tuple[str, typing.Any, numpy.typing.NDArray[numpy.uint8]]]"),
        "Read an Arrow C stream to its end: (name, values, nulls) of each column; nulls is empty where none is.\n"
        "Texts come as (data, offsets), or as (codes, data, offsets) for the columns named in coded.");
  nb::class_<matchset::SharedArrowStream>(
      m, "SharedArrowStream", "An Arrow C stream that can be opened several times and read once.")
      .def(
          "__init__",
          [](matchset::SharedArrowStream* self, nb::handle capsule) {
            new (self) matchset::SharedArrowStream(to_arrow_stream(capsule));
          },
          "capsule"_a)
      .def(
          "__arrow_c_stream__",
          [](const matchset::SharedArrowStream& self, nb::handle /*requested_schema*/) {
            return to_capsule([&](ArrowArrayStream& out) { self.open(out); });
          },
          "requested_schema"_a = nb::none());
  m.def("export_arrow_table", &export_arrow_table, "columns"_a, "n_rows"_a,
        nb::sig("def export_arrow_table(columns: list[tuple[str, str, typing.Any, typing.Any, typing.Any]], "
                "n_rows: int) -> object"),
        "A capsule of an Arrow C stream of one batch that borrows the arrays of its columns, each\n"
        "(name, format, valid bits or None, values or None, (data, offsets) of its texts or None).");
}

std::vector<matchset::NGramKind> to_kinds(const In<std::uint8_t>& units, const In<std::uint8_t>& lengths) {
  if (units.size() != lengths.size()) throw std::invalid_argument("units and lengths must be of one length");
  std::vector<matchset::NGramKind> kinds;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units.data()[i] > 1 || lengths.data()[i] == 0)
      throw std::invalid_argument("a kind must have unit 0 or 1 and a length of at least 1");
    kinds.push_back({static_cast<matchset::Unit>(units.data()[i]), lengths.data()[i]});
  }
  return kinds;
}

// A vocabulary that keeps the arrays it looks into alive.
class Vocabulary {
 public:
  Vocabulary(In<std::uint8_t> slots, std::uint64_t n_homes, const In<std::uint8_t>& units,
             const In<std::uint8_t>& lengths, std::uint32_t n_known, std::uint32_t n_buckets, In<float> unknown_idf)
      : slots_(std::move(slots)), unknown_idf_(std::move(unknown_idf)) {
    const std::size_t n_slots = slots_.size() / sizeof(matchset::Slot);
    if (slots_.size() % sizeof(matchset::Slot) != 0 || reinterpret_cast<std::uintptr_t>(slots_.data()) % alignof(matchset::Slot) != 0)
      throw std::invalid_argument("slots must be whole and aligned");
    if (n_homes < 1 || n_homes > n_slots) throw std::invalid_argument("n_homes must be from 1 to the number of slots");
    view_.slots = {reinterpret_cast<const matchset::Slot*>(slots_.data()), n_slots};
    view_.n_homes = n_homes;
    view_.kinds = to_kinds(units, lengths);
    view_.n_known = n_known;
    view_.n_buckets = n_buckets;
    view_.unknown_idf = to_span(unknown_idf_);
    if (unknown_idf_.size() != view_.kinds.size() * n_buckets)
      throw std::invalid_argument("unknown_idf must hold one value per kind and bucket");
    if (n_known + view_.unknown_idf.size() > std::size_t{std::numeric_limits<std::int32_t>::max()})
      throw std::invalid_argument("at most 2147483647 features are possible");
  }

  // The features of one text, in scratch memory that lives until the next call of this thread.
  const matchset::QueryFeatures& vectorize(nb::handle text) const {
    if (!PyUnicode_Check(text.ptr()))
      throw nb::type_error((std::string("query must be str; got ") + Py_TYPE(text.ptr())->tp_name).c_str());
    static thread_local matchset::QueryFeatures features;
    nb::object keep;
    const std::string_view bytes = to_utf8(text, keep);
    matchset::vectorize(bytes, view_, features);  // a few microseconds: not worth releasing the GIL
    return features;
  }

  const matchset::VocabularyView& view() const { return view_; }

 private:
  In<std::uint8_t> slots_;
  In<float> unknown_idf_;
  matchset::VocabularyView view_;
};

void bind_features(nb::module_& m) {
  m.def(
      "count_ngrams",
      [](const In<std::uint8_t>& data, const In<std::int64_t>& offsets, const In<std::uint8_t>& units,
         const In<std::uint8_t>& lengths, const In<std::int64_t>& limits, const In<std::int64_t>& min_df,
         std::size_t budget, unsigned threads) {
        const auto texts = to_strings(data, offsets);
        const auto kinds = to_kinds(units, lengths);
        if (limits.size() != kinds.size() || min_df.size() != kinds.size())
          throw std::invalid_argument("limits and min_df must hold one value per kind");
        std::vector<matchset::VocabularyRule> rules;
        for (std::size_t i = 0; i < kinds.size(); ++i)
          rules.push_back({kinds[i], static_cast<std::size_t>(limits.data()[i]), static_cast<std::uint32_t>(min_df.data()[i])});
        std::vector<matchset::CountedNGrams> counted;
        {
          nb::gil_scoped_release release;
          counted = matchset::count_ngrams(texts, rules, budget, threads);
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
        auto slots = matchset::lay_out_slots(to_span(keys), to_span(idf), n_homes);
        std::vector<std::uint8_t> bytes(slots.size() * sizeof(matchset::Slot));
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
            matchset::SparseRows rows;
            {
              nb::gil_scoped_release release;
              rows = matchset::vectorize_all(texts, self.view(), threads);
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
              counts = matchset::count_unknown(texts, self.view(), threads);
            }
            return to_numpy<std::int64_t>(std::move(counts));
          },
          "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a, "In how many texts each unknown id occurs.");
  m.def(
      "list_ngrams",
      [](nb::handle text, const In<std::uint8_t>& units, const In<std::uint8_t>& lengths) {
        const auto kinds = to_kinds(units, lengths);
        nb::object keep;
        matchset::TextScratch scratch;
        matchset::PaddedText padded;
        matchset::normalize(to_utf8(text, keep), scratch, padded.open());
        padded.close();
        matchset::OwnedStrings shown;
        std::vector<std::uint64_t> keys;
        for (const auto kind : kinds)
          padded.for_each(kind, [&](std::size_t begin, std::size_t length) {
            const auto ngram = padded.slice(begin, length);
            matchset::append_shown(ngram, shown);
            keys.push_back(matchset::ngram_key(ngram, kind));
          });
        return std::pair(from_strings(std::move(shown)), to_numpy<std::uint64_t>(std::move(keys)));
      },
      "text"_a, "units"_a.noconvert(), "lengths"_a.noconvert(),
      nb::sig("def list_ngrams(text: str, units: NDArray[numpy.uint8], lengths: NDArray[numpy.uint8]) -> "
              "tuple[tuple[NDArray[numpy.uint8], NDArray[numpy.int64]], NDArray[numpy.uint64]]"),
      "The n-grams of a text as people read them, kind by kind, and their keys.");
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Kernels of matchset: plain arrays in, plain arrays out.";

  m.def("pack_strings", &pack_strings, "texts"_a, "what"_a,
        "Copy a sequence of str into one UTF-8 buffer with offsets; `what` names it in errors.");
  m.def(
      "group_strings",
      [](const In<std::uint8_t>& data, const In<std::int64_t>& offsets) {
        const auto strings = to_strings(data, offsets);
        matchset::Grouping grouping;
        {
          nb::gil_scoped_release release;
          grouping = matchset::group_strings(strings);
        }
        return std::pair(to_numpy<std::int32_t>(std::move(grouping.group)),
                         to_numpy<std::int64_t>(std::move(grouping.first)));
      },
      "data"_a.noconvert(), "offsets"_a.noconvert(),
      "Group of each string, numbered by first appearance, and the place of each group's first string.");
  m.def(
      "find_strings",
      [](const In<std::uint8_t>& data, const In<std::int64_t>& offsets, const In<std::uint8_t>& wanted_data,
         const In<std::int64_t>& wanted_offsets) {
        const auto distinct = to_strings(data, offsets);
        const auto wanted = to_strings(wanted_data, wanted_offsets);
        std::vector<std::int64_t> places;
        {
          nb::gil_scoped_release release;
          places = matchset::find_strings(distinct, wanted);
        }
        return to_numpy<std::int64_t>(std::move(places));
      },
      "data"_a.noconvert(), "offsets"_a.noconvert(), "wanted_data"_a.noconvert(), "wanted_offsets"_a.noconvert(),
      "Place of each wanted string among distinct strings, -1 where it is not there.");
  m.def(
      "take_strings",
      [](const In<std::uint8_t>& data, const In<std::int64_t>& offsets, const In<std::int64_t>& places) {
        const auto strings = to_strings(data, offsets);
        matchset::OwnedStrings taken;
        {
          nb::gil_scoped_release release;
          taken = matchset::take_strings(strings, to_span(places));
        }
        return from_strings(std::move(taken));
      },
      "data"_a.noconvert(), "offsets"_a.noconvert(), "places"_a.noconvert(), "The strings at places, in that order.");
  m.def(
      "sort_strings",
      [](const In<std::uint8_t>& data, const In<std::int64_t>& offsets) {
        const auto strings = to_strings(data, offsets);
        std::vector<std::int64_t> places;
        {
          nb::gil_scoped_release release;
          places = matchset::sort_strings(strings);
        }
        return to_numpy<std::int64_t>(std::move(places));
      },
      "data"_a.noconvert(), "offsets"_a.noconvert(),
      "Places of the strings in ascending order of their bytes, equal ones by place.");

  m.def("unicode_version", &matchset::unicode_version, "Version of the Unicode tables compiled in.");
  m.def(
      "normalize",
      [](const In<std::uint8_t>& data, const In<std::int64_t>& offsets, unsigned threads) {
        const auto texts = to_strings(data, offsets);
        matchset::OwnedStrings normalized;
        {
          nb::gil_scoped_release release;
          normalized = matchset::normalize_all(texts, threads);
        }
        return from_strings(std::move(normalized));
      },
      "data"_a.noconvert(), "offsets"_a.noconvert(), "threads"_a, "Normalised form of each text.");
  bind_arrow(m);
  bind_features(m);
}
