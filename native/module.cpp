// With module_*.cpp the one place that knows Python: it checks arguments, releases the GIL, and calls the kernels.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "strings.hpp"
#include "text.hpp"
#include "unicode.hpp"

void bind_answers(nanobind::module_& m);   // module_answers.cpp
void bind_arrow(nanobind::module_& m);     // module_arrow.cpp
void bind_features(nanobind::module_& m);  // module_features.cpp
void bind_learn(nanobind::module_& m);     // module_learn.cpp
void bind_postings(nanobind::module_& m);  // module_postings.cpp
void bind_search(nanobind::module_& m);    // module_search.cpp
void bind_towers(nanobind::module_& m);    // module_towers.cpp

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using matchset::from_strings;
using matchset::In;
using matchset::Out;
using matchset::to_numpy;
using matchset::to_span;
using matchset::to_strings;
using matchset::to_utf8;

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

// A str of UTF-8 that is nearly always ASCII, which needs no decoder.
PyObject* to_str(const char* text, std::size_t size) {
  std::uint8_t seen = 0;
  for (std::size_t i = 0; i < size; ++i) seen |= static_cast<std::uint8_t>(text[i]);
  if (size < 2 || seen > 127) return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(size), "replace");
  PyObject* made = PyUnicode_New(static_cast<Py_ssize_t>(size), 127);
  if (made != nullptr) std::memcpy(PyUnicode_1BYTE_DATA(made), text, size);
  return made;
}

using TupleOfStr = nb::typed<nb::tuple, nb::str, nb::ellipsis>;

// A few of perhaps millions of strings, so only the offsets of those are checked: they may come from a file. Most
// lie where no cache has them, so that memory is asked for ahead: the offsets of a group first, then its bytes.
TupleOfStr decode_strings(const In<std::uint8_t>& data, const In<std::int64_t>& offsets, const In<std::int32_t>& places) {
  constexpr std::size_t kGroup = 128;
  const std::span<const std::int32_t> wanted = to_span(places);
  const auto* bytes = reinterpret_cast<const char*>(data.data());
  nb::object decoded = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(wanted.size())));
  if (!decoded.is_valid()) nb::raise_python_error();
  for (std::size_t from = 0; from < wanted.size(); from += kGroup) {
    const auto group = wanted.subspan(from, std::min(kGroup, wanted.size() - from));
    for (const std::int32_t place : group) {
      if (place < 0 || static_cast<std::size_t>(place) + 1 >= offsets.size())
        throw nb::index_error("places must be within the strings");
      __builtin_prefetch(offsets.data() + place);
      __builtin_prefetch(offsets.data() + place + 1);
    }
    for (const std::int32_t place : group) {
      const std::int64_t begin = offsets.data()[place], end = offsets.data()[place + 1];
      if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data.size())
        throw std::invalid_argument("string offsets must ascend inside the buffer");
      __builtin_prefetch(bytes + begin);
      __builtin_prefetch(bytes + end);
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::int64_t begin = offsets.data()[group[i]], end = offsets.data()[group[i] + 1];
      PyObject* item = to_str(bytes + begin, static_cast<std::size_t>(end - begin));
      if (item == nullptr) nb::raise_python_error();
      PyTuple_SET_ITEM(decoded.ptr(), static_cast<Py_ssize_t>(from + i), item);
    }
  }
  return nb::borrow<TupleOfStr>(decoded);
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // caches of Python hold native values until the process ends
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
      "hash_strings",
      [](const In<std::uint8_t>& data, const In<std::int64_t>& offsets) {
        const auto strings = to_strings(data, offsets);
        std::vector<std::uint64_t> hashes(strings.size());
        for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = matchset::hash_bytes(strings[i]);
        return to_numpy<std::uint64_t>(std::move(hashes));
      },
      "data"_a.noconvert(), "offsets"_a.noconvert(), "A 64-bit hash of each string.");
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
  m.def("decode_strings", &decode_strings, "data"_a.noconvert(), "offsets"_a.noconvert(), "places"_a.noconvert(),
        "The strings at places as str; time does not grow with the strings that are not asked for.");
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

  bind_answers(m);
  bind_arrow(m);
  bind_features(m);
  bind_learn(m);
  bind_postings(m);
  bind_search(m);
  bind_towers(m);
}
