// Many strings as one UTF-8 buffer with offsets, borrowed from Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "hash.hpp"

namespace matchset {

struct StringsView {
  std::span<const char> data;
  std::span<const std::int64_t> offsets;  // n + 1, ascending, from 0 to data.size()

  std::size_t size() const { return offsets.size() - 1; }
  std::string_view operator[](std::size_t i) const {
    const auto begin = static_cast<std::size_t>(offsets[i]);
    return {data.data() + begin, static_cast<std::size_t>(offsets[i + 1]) - begin};
  }
  // Throws unless every string lies inside the buffer: offsets may come from a file.
  void check() const {
    if (offsets.empty()) throw std::invalid_argument("string offsets must hold at least one entry; got 0");
    std::int64_t last = 0;
    for (const std::int64_t offset : offsets) {
      if (offset < last) throw std::invalid_argument("string offsets must ascend from 0");
      last = offset;
    }
    if (static_cast<std::uint64_t>(last) > data.size())
      throw std::invalid_argument("string offsets must end inside the buffer");
  }
};

struct OwnedStrings {
  std::vector<char> data;
  std::vector<std::int64_t> offsets{0};

  void append(std::string_view text) {
    data.insert(data.end(), text.begin(), text.end());
    offsets.push_back(static_cast<std::int64_t>(data.size()));
  }
  StringsView view() const { return {data, offsets}; }
};


struct Grouping {
  std::vector<std::int32_t> group;  // group of each string, numbered by first appearance, (n,)
  std::vector<std::int64_t> first;  // place of each group's first string, (n_groups,)
};

// Which strings are the same?
Grouping group_strings(const StringsView& strings);

// Place of each wanted string among distinct strings, -1 where it is not there, (n_wanted,).
std::vector<std::int64_t> find_strings(const StringsView& distinct, const StringsView& wanted);

}  // namespace matchset
