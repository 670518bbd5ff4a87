// The one file that knows Python: it checks arguments, releases the GIL, and calls the kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrow.hpp"
#include "strings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
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
