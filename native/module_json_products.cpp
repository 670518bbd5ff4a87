// Bindings of what reaches the server and leaves it: parameters, bodies, products as JSON.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "json_products.hpp"
#include "json_scan.hpp"
#include "module.hpp"
#include "python_arrays.hpp"
#include "python_products.hpp"

namespace matchset {
namespace {

JsonScratch& own_scratch() {
  static thread_local JsonScratch scratch;
  return scratch;
}

nb::bytes to_bytes(std::string_view json) { return nb::bytes(json.data(), json.size()); }

nb::bytes py_write_products(const ProductTexts& products, const In<std::int32_t>& labels, const In<float>& scores,
                            bool titles) {
  const StringsView* const shown = titles ? products.titles() : nullptr;
  return to_bytes(write_products(products.ids(), shown, to_span(labels), to_span(scores), own_scratch()));
}

nb::bytes py_write_ids(const ProductTexts& products, const In<std::int32_t>& labels) {
  return to_bytes(write_ids(products.ids(), to_span(labels), own_scratch()));
}

std::tuple<std::size_t, std::size_t, std::size_t, std::size_t> py_scan_json(const nb::bytes& body) {
  const std::string_view text{body.c_str(), body.size()};
  const JsonSize size = without_gil([&] { return scan_json(text); });
  return {size.values, size.keys, size.depth, size.longest};
}

int from_hex(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = static_cast<char>(digit | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// What is no escape stays as it is.
nb::object py_decode_parameter(const nb::bytes& value) {
  static thread_local std::string text;
  const std::string_view given{value.c_str(), value.size()};
  text.clear();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool may_be_escape = given[i] == '%' && i + 2 < given.size();
    const int high = may_be_escape ? from_hex(given[i + 1]) : -1, low = may_be_escape ? from_hex(given[i + 2]) : -1;
    if (high < 0 || low < 0) {
      text.push_back(given[i] == '+' ? ' ' : given[i]);
      continue;
    }
    text.push_back(static_cast<char>(16 * high + low));
    i += 2;
  }
  PyObject* const decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict");
  if (decoded == nullptr) nb::raise_python_error();
  return nb::steal(decoded);
}

}  // namespace

void bind_json_products(nb::module_& m) {
  nb::class_<ProductTexts>(m, "ProductTexts", "Ids and titles of products, each a buffer with offsets.")
      .def(nb::init<Texts, std::optional<Texts>>(), "ids"_a.noconvert(), "titles"_a.noconvert().none());
  m.def("write_products", &py_write_products, "products"_a, "labels"_a.noconvert(), "scores"_a.noconvert(), "titles"_a,
        "Products as a JSON array of objects with id, score and, if wanted and known, title.");
  m.def("write_ids", &py_write_ids, "products"_a, "labels"_a.noconvert(), "Ids of products as a JSON array.");
  m.def("decode_parameter", &py_decode_parameter, "value"_a, nb::sig("def decode_parameter(value: bytes) -> str"),
        "The text of a value in a query string; a UnicodeDecodeError unless it is UTF-8.");
  m.def("scan_json", &py_scan_json, "body"_a,
        "How many values and keys a JSON text has, how deep it is, and the bytes of its longest string.");
}

}  // namespace matchset
