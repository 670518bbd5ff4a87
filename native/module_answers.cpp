// Bindings of answers.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "answers.hpp"
#include "arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace matchset {
namespace {

using Texts = std::pair<In<std::uint8_t>, In<std::int64_t>>;

// Unchecked as a whole: only what is asked for is looked at, and checked then.
StringsView to_view(const Texts& texts) {
  return {{reinterpret_cast<const char*>(texts.first.data()), texts.first.size()}, to_span(texts.second)};
}

nb::bytes write_products(const Texts& ids, const std::optional<Texts>& titles, const In<std::int32_t>& labels,
                         const In<float>& scores) {
  static thread_local std::vector<char> out;  // kept: a server writes thousands a second
  out.clear();
  const StringsView id_view = to_view(ids);
  if (titles) {
    const StringsView title_view = to_view(*titles);
    append_products(id_view, &title_view, to_span(labels), to_span(scores), out);
  } else {
    append_products(id_view, nullptr, to_span(labels), to_span(scores), out);
  }
  return nb::bytes(out.data(), out.size());
}

}  // namespace
}  // namespace matchset

void bind_answers(nb::module_& m) {
  m.def("write_products", &matchset::write_products, "ids"_a.noconvert(), "titles"_a.noconvert().none(),
        "labels"_a.noconvert(), "scores"_a.noconvert(),
        "Products as a JSON array of objects with id, score and, where titles are given, title; ids and titles are "
        "buffers with offsets.");
}
