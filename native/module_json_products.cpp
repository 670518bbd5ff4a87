// Bindings of JSON: products that leave the server, and bodies that reach it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "json_products.hpp"
#include "json_scan.hpp"
#include "module.hpp"
#include "python_arrays.hpp"

namespace matchset {
namespace {

using Texts = std::pair<In<std::uint8_t>, In<std::int64_t>>;

// Not checked as a whole: only the strings that are needed are read, and checked then.
StringsView to_view(const Texts& texts) {
  return {{reinterpret_cast<const char*>(texts.first.data()), texts.first.size()}, to_span(texts.second)};
}

nb::bytes py_write_products(const Texts& ids, const std::optional<Texts>& titles, const In<std::int32_t>& labels,
                            const In<float>& scores) {
  static thread_local JsonScratch scratch;
  const StringsView id_view = to_view(ids);
  const StringsView title_view = titles ? to_view(*titles) : StringsView{};
  const std::string_view json =
      write_products(id_view, titles ? &title_view : nullptr, to_span(labels), to_span(scores), scratch);
  return nb::bytes(json.data(), json.size());
}

nb::bytes py_write_ids(const Texts& ids, const In<std::int32_t>& labels) {
  static thread_local JsonScratch scratch;
  const std::string_view json = write_ids(to_view(ids), to_span(labels), scratch);
  return nb::bytes(json.data(), json.size());
}

std::tuple<std::size_t, std::size_t, std::size_t, std::size_t> py_scan_json(const nb::bytes& body) {
  const std::string_view text{body.c_str(), body.size()};
  const JsonSize size = without_gil([&] { return scan_json(text); });
  return {size.values, size.keys, size.depth, size.longest};
}

}  // namespace

void bind_json_products(nb::module_& m) {
  m.def("write_products", &py_write_products, "ids"_a.noconvert(), "titles"_a.noconvert().none(),
        "labels"_a.noconvert(), "scores"_a.noconvert(),
        "Products as a JSON array of objects with id, score and, if titles are given, title; ids and titles are "
        "buffers with offsets.");
  m.def("write_ids", &py_write_ids, "ids"_a.noconvert(), "labels"_a.noconvert(),
        "Ids of products as a JSON array; ids are a buffer with offsets.");
  m.def("scan_json", &py_scan_json, "body"_a,
        "How many values and keys a JSON text has, how deep it is, and the bytes of its longest string.");
}

}  // namespace matchset
