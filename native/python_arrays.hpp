// Arrays and strings between Python and the kernels: arguments are borrowed, results are handed over.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strings.hpp"

namespace matchset {

template <typename T>
using Out = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;
template <typename T>
using InOut = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>, nanobind::c_contig>;
template <typename T>
using In = nanobind::ndarray<nanobind::numpy, const T, nanobind::ndim<1>, nanobind::c_contig>;

// Hands a vector over to NumPy without a copy.
template <typename T, typename Stored, typename Allocator>
Out<T> to_numpy(std::vector<Stored, Allocator>&& values) {
  static_assert(sizeof(T) == sizeof(Stored));
  using Vector = std::vector<Stored, Allocator>;
  auto* owned = new Vector(std::move(values));  // owned by the capsule below
  nanobind::capsule owner(owned, [](void* p) noexcept { delete static_cast<Vector*>(p); });
  return Out<T>(reinterpret_cast<T*>(owned->data()), {owned->size()}, owner);
}

template <typename T>
std::span<const T> to_span(const In<T>& array) {
  return {array.data(), array.size()};
}

inline StringsView to_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets) {
  const StringsView view{{reinterpret_cast<const char*>(data.data()), data.size()}, to_span(offsets)};
  view.check();
  return view;
}

// Refuses an argument that breaks a rule.
inline void check(bool is_right, const std::string& rule, std::size_t found) {
  if (!is_right) throw std::invalid_argument(rule + "; got " + std::to_string(found));
}

using StringsOut = std::pair<Out<std::uint8_t>, Out<std::int64_t>>;  // data, offsets

inline StringsOut from_strings(OwnedStrings&& strings) {
  return {to_numpy<std::uint8_t>(std::move(strings.data)), to_numpy<std::int64_t>(std::move(strings.offsets))};
}

// UTF-8 of a str, valid as long as `text` and `owner` live. Lone surrogates become three bytes that no decoder accepts:
// text.hpp reads them as U+FFFD.
inline std::string_view to_utf8(nanobind::handle text, nanobind::object& owner) {
  Py_ssize_t size = 0;
  if (const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size)) return {bytes, static_cast<std::size_t>(size)};
  PyErr_Clear();
  owner = nanobind::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass"));
  if (!owner.is_valid()) nanobind::raise_python_error();
  return {PyBytes_AsString(owner.ptr()), static_cast<std::size_t>(PyBytes_Size(owner.ptr()))};
}

// The same for an argument that may be anything.
inline std::string_view query_to_utf8(nanobind::handle text, nanobind::object& owner) {
  if (!PyUnicode_Check(text.ptr()))
    throw nanobind::type_error((std::string("query must be str; got ") + nanobind::inst_name(text).c_str()).c_str());
  return to_utf8(text, owner);
}

}  // namespace matchset
