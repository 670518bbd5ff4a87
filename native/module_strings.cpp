// Bindings of strings.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "module.hpp"
#include "prefetch.hpp"
#include "python_arrays.hpp"
#include "strings.hpp"

namespace matchset {
namespace {

using TupleOfStr = nb::typed<nb::tuple, nb::str, nb::ellipsis>;
using GroupsOut = std::pair<Out<std::int32_t>, Out<std::int64_t>>;

StringsOut py_pack_strings(nb::handle texts, const std::string& what) {
  const nb::object items = nb::steal(PySequence_Fast(texts.ptr(), "strings must come as a sequence"));
  if (!items.is_valid()) nb::raise_python_error();
  const Py_ssize_t n = PySequence_Size(items.ptr());
  OwnedStrings packed;
  packed.offsets.reserve(static_cast<std::size_t>(n) + 1);
  nb::object owner;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const nb::object item = nb::steal(PySequence_GetItem(items.ptr(), i));
    if (!item.is_valid()) nb::raise_python_error();
    if (!PyUnicode_Check(item.ptr()))
      throw nb::type_error(
          (what + "[" + std::to_string(i) + "] must be str; got " + nb::inst_name(item).c_str()).c_str());
    packed.append(to_utf8(item, owner));
  }
  return from_strings(std::move(packed));
}

// A str of UTF-8 that is nearly always ASCII, which needs no decoder. The stable ABI has only the decoder.
PyObject* to_str(const char* text, std::size_t size) {
#ifdef Py_LIMITED_API
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(size), "replace");
#else
  std::uint8_t seen = 0;
  for (std::size_t i = 0; i < size; ++i) seen |= static_cast<std::uint8_t>(text[i]);
  if (size < 2 || seen > 127) return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(size), "replace");
  PyObject* made = PyUnicode_New(static_cast<Py_ssize_t>(size), 127);
  if (made != nullptr) std::memcpy(PyUnicode_1BYTE_DATA(made), text, size);
  return made;
#endif
}

// Prefetches the offsets of some strings, then their bytes. Only these offsets are checked: they may come from a file.
void prefetch_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets,
                      std::span<const std::int32_t> group) {
  for (const std::int32_t index : group) {
    if (index < 0 || static_cast<std::size_t>(index) + 1 >= offsets.size())
      throw nb::index_error("indices must be within the strings");
    prefetch_far(offsets.data() + index);
    prefetch_far(offsets.data() + index + 1);
  }
  for (const std::int32_t index : group) {
    const std::int64_t begin = offsets.data()[index], end = offsets.data()[index + 1];
    if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data.size())
      throw std::invalid_argument("string offsets must ascend inside the buffer");
    prefetch_far(data.data() + begin);
    prefetch_far(data.data() + end);
  }
}

// A few out of perhaps millions of strings, most of them in no cache: memory is prefetched a group at a time.
TupleOfStr py_decode_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets,
                             const In<std::int32_t>& indices) {
  constexpr std::size_t kGroup = 128;
  const std::span<const std::int32_t> wanted = to_span(indices);
  const auto* bytes = reinterpret_cast<const char*>(data.data());
  nb::object decoded = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(wanted.size())));
  if (!decoded.is_valid()) nb::raise_python_error();
  for (std::size_t from = 0; from < wanted.size(); from += kGroup) {
    const auto group = wanted.subspan(from, std::min(kGroup, wanted.size() - from));
    prefetch_strings(data, offsets, group);
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::int64_t begin = offsets.data()[group[i]], end = offsets.data()[group[i] + 1];
      PyObject* item = to_str(bytes + begin, static_cast<std::size_t>(end - begin));
      if (item == nullptr) nb::raise_python_error();
      PyTuple_SetItem(decoded.ptr(), static_cast<Py_ssize_t>(from + i), item);
    }
  }
  return nb::borrow<TupleOfStr>(decoded);
}

GroupsOut py_group_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets) {
  const auto strings = to_strings(data, offsets);
  Grouping grouping = without_gil([&] { return group_strings(strings); });
  return {to_numpy<std::int32_t>(std::move(grouping.group)), to_numpy<std::int64_t>(std::move(grouping.first))};
}

Out<std::int64_t> py_find_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets,
                                  const In<std::uint8_t>& wanted_data, const In<std::int64_t>& wanted_offsets,
                                  unsigned threads) {
  const auto distinct = to_strings(data, offsets), wanted = to_strings(wanted_data, wanted_offsets);
  return to_numpy<std::int64_t>(without_gil([&] { return find_strings(distinct, wanted, threads); }));
}

Out<std::uint64_t> py_hash_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets) {
  const auto strings = to_strings(data, offsets);
  std::vector<std::uint64_t> hashes(strings.size());
  for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = hash_bytes(strings[i]);
  return to_numpy<std::uint64_t>(std::move(hashes));
}

StringsOut py_take_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets,
                           const In<std::int64_t>& indices) {
  const auto strings = to_strings(data, offsets);
  return from_strings(without_gil([&] { return take_strings(strings, to_span(indices)); }));
}

Out<std::int64_t> py_sort_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets) {
  const auto strings = to_strings(data, offsets);
  return to_numpy<std::int64_t>(without_gil([&] { return sort_strings(strings); }));
}

}  // namespace

void bind_strings(nb::module_& m) {
  m.def("pack_strings", &py_pack_strings, "texts"_a, "what"_a,
        "Copy a sequence of str into one UTF-8 buffer with offsets; `what` names it in errors.");
  m.def("group_strings", &py_group_strings, "data"_a.noconvert(), "offsets"_a.noconvert(),
        "Group of each string, numbered by first appearance, and the index of each group's first string.");
  m.def("find_strings", &py_find_strings, "data"_a.noconvert(), "offsets"_a.noconvert(), "wanted_data"_a.noconvert(),
        "wanted_offsets"_a.noconvert(), "threads"_a,
        "Index of each wanted string among distinct strings, -1 if it is not there.");
  m.def("hash_strings", &py_hash_strings, "data"_a.noconvert(), "offsets"_a.noconvert(),
        "A 64-bit hash of each string.");
  m.def("take_strings", &py_take_strings, "data"_a.noconvert(), "offsets"_a.noconvert(), "indices"_a.noconvert(),
        "The strings at indices, in that order.");
  m.def("decode_strings", &py_decode_strings, "data"_a.noconvert(), "offsets"_a.noconvert(), "indices"_a.noconvert(),
        "The strings at indices as str; the time does not depend on the other strings.");
  m.def("sort_strings", &py_sort_strings, "data"_a.noconvert(), "offsets"_a.noconvert(),
        "Indices of the strings in ascending order of their bytes, ties by index.");
}

}  // namespace matchset
