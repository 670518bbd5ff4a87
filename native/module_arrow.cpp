// Bindings of Arrow C streams.
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
#include "module.hpp"
#include "python_arrays.hpp"

namespace matchset {
namespace {

ArrowArrayStream& to_arrow_stream(nb::handle capsule) {
  auto* stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
  if (!stream) nb::raise_python_error();
  return *stream;
}

// (name, values, nulls): values are an array, (data, offsets) for texts, or (codes, data, offsets).
nb::tuple from_arrow_column(ArrowColumn&& column) {
  nb::object values;
  switch (column.kind) {
    case ArrowKind::kText: values = nb::cast(from_strings(std::move(column.texts))); break;
    case ArrowKind::kCode: {
      auto [data, offsets] = from_strings(std::move(column.texts));
      values = nb::make_tuple(to_numpy<std::int32_t>(std::move(column.codes)), data, offsets);
      break;
    }
    case ArrowKind::kInt32: values = nb::cast(to_numpy<std::int32_t>(std::move(column.int32s))); break;
    case ArrowKind::kInt64: values = nb::cast(to_numpy<std::int64_t>(std::move(column.int64s))); break;
    case ArrowKind::kDouble: values = nb::cast(to_numpy<double>(std::move(column.doubles))); break;
    case ArrowKind::kBool: values = nb::cast(to_numpy<std::uint8_t>(std::move(column.bools))); break;
  }
  return nb::make_tuple(column.name, values, to_numpy<std::uint8_t>(std::move(column.nulls)));
}

nb::list py_read_arrow_stream(nb::handle capsule, const std::vector<std::string>& coded) {
  ArrowArrayStream& stream = to_arrow_stream(capsule);
  // A stream may compute for minutes what it gives: Ctrl-C ends it between two batches.
  const auto hear_signals = [] {
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  };
  nb::list out;
  for (ArrowColumn& column : without_gil([&] { return read_arrow_stream(stream, coded, hear_signals); }))
    out.append(from_arrow_column(std::move(column)));
  return out;
}

// A capsule that owns a stream, which `fill` fills.
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
  stream.release();  // the capsule owns it now
  return nb::steal(capsule);
}

using AnyIn = nb::ndarray<nb::numpy, nb::ro, nb::ndim<1>, nb::c_contig>;

// Bytes of n values in an Arrow format that we export, so that no reader reads beyond a buffer.
std::size_t arrow_bytes(const std::string& format, std::size_t n) {
  if (format == "g") return 8 * n;
  if (format == "f" || format == "i" || format == "tdD") return 4 * n;
  if (format == "C") return n;
  if (format == "b") return (n + 7) / 8;
  throw std::invalid_argument("an Arrow format must be one of g, f, i, tdD, C, b, U; got " + format);
}

// One column: (name, Arrow format, valid bits or None, values or None, (data, offsets) of texts or None).
ArrowExportColumn to_export_column(nb::handle item, std::size_t n_rows) {
  const auto [name, format, valid, values, texts] =
      nb::cast<std::tuple<std::string, std::string, nb::object, nb::object, nb::object>>(item);
  ArrowExportColumn column{name, format, nullptr, nullptr};
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

nb::object py_export_arrow_table(const nb::list& columns, std::int64_t n_rows) {
  auto table = std::make_shared<ArrowExportTable>();
  table->n_rows = n_rows;
  for (const nb::handle item : columns)
    table->columns.push_back(to_export_column(item, static_cast<std::size_t>(n_rows)));
  // Readers may release from any thread, also while the interpreter shuts down.
  table->owner = std::shared_ptr<void>(nb::object(columns).release().ptr(), [](void* kept) {
    if (!nb::is_alive()) return;
    nb::gil_scoped_acquire acquire;
    Py_DECREF(static_cast<PyObject*>(kept));
  });
  return to_capsule([&](ArrowArrayStream& out) { export_arrow_table(table, out); });
}

void py_init_shared_stream(SharedArrowStream* self, nb::handle capsule) {
  new (self) SharedArrowStream(to_arrow_stream(capsule));
}

nb::object py_open_shared_stream(const SharedArrowStream& self, nb::handle /*requested_schema*/) {
  return to_capsule([&](ArrowArrayStream& out) { self.open(out); });
}

}  // namespace

void bind_arrow(nb::module_& m) {
  m.def("read_arrow_stream", &py_read_arrow_stream, "capsule"_a, "coded"_a,
        nb::sig("def read_arrow_stream(capsule: object, coded: list[str]) -> "
                "list[tuple[str, typing.Any, numpy.typing.NDArray[numpy.uint8]]]"),
        "Read an Arrow C stream to its end: (name, values, nulls) of each column; nulls is empty if none is.\n"
        "Texts come as (data, offsets), or as (codes, data, offsets) for the columns named in coded.");
  nb::class_<SharedArrowStream>(m, "SharedArrowStream",
                                "An Arrow C stream that can be opened several times and read once.")
      .def("__init__", &py_init_shared_stream, "capsule"_a)
      .def("__arrow_c_stream__", &py_open_shared_stream, "requested_schema"_a = nb::none())
      .def("column_names", &SharedArrowStream::column_names, "The names of the columns, with duplicates.");
  m.def("export_arrow_table", &py_export_arrow_table, "columns"_a, "n_rows"_a,
        nb::sig("def export_arrow_table(columns: list[tuple[str, str, typing.Any, typing.Any, typing.Any]], "
                "n_rows: int) -> object"),
        "A capsule of an Arrow C stream of one batch that borrows the arrays of its columns, each\n"
        "(name, format, valid bits or None, values or None, (data, offsets) of its texts or None).");
}

}  // namespace matchset
