// Many strings as one UTF-8 buffer with offsets, borrowed from Python.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "buffer.hpp"
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

// The first eight bytes as a number that sorts as they do, which decides most comparisons of texts without NUL bytes.
inline std::uint64_t sort_prefix(std::string_view text) {
  std::uint64_t prefix = 0;
  for (std::size_t i = 0; i < 8; ++i)
    prefix = prefix << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0u);
  return prefix;
}

struct OwnedStrings {
  Buffer<char> data;
  Buffer<std::int64_t> offsets{0};

  void append(std::string_view text) {
    data.insert(data.end(), text.begin(), text.end());
    offsets.push_back(static_cast<std::int64_t>(data.size()));
  }
  StringsView view() const { return {data, offsets}; }
};

// Hash table from strings to indices, by open addressing. The strings stay with the caller, which passes
// `text_at(index)`.
class StringTable {
 public:
  explicit StringTable(std::size_t n = 0) : slots_(std::bit_ceil(2 * n + 2)) {}

  // Index of a string equal to `text`, or `fresh` after inserting it.
  template <typename Text>
  std::int64_t insert(std::string_view text, std::int64_t fresh, Text&& text_at) {
    if (2 * (n_used_ + 1) > slots_.size()) grow();
    const std::uint64_t hash = hash_bytes(text);
    Slot& slot = slots_[probe(hash, text, text_at)];
    if (slot.index < 0) {
      slot = {hash, fresh};
      ++n_used_;
    }
    return slot.index;
  }
  // Index of a string equal to `text`, or -1.
  template <typename Text>
  std::int64_t find(std::string_view text, Text&& text_at) const {
    return slots_[probe(hash_bytes(text), text, text_at)].index;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::int64_t index = -1;
  };
  template <typename Text>
  std::size_t probe(std::uint64_t hash, std::string_view text, Text&& text_at) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.index < 0 || (slot.hash == hash && text_at(slot.index) == text)) return at;
    }
  }
  void grow();

  Buffer<Slot> slots_;
  std::size_t n_used_ = 0;
};

struct Grouping {
  std::vector<std::int32_t> group;  // group of each string, numbered by first appearance, (n,)
  std::vector<std::int64_t> first;  // index of each group's first string, (n_groups,)
};

// Which strings are the same?
Grouping group_strings(const StringsView& strings);

// Index of each wanted string among distinct strings, -1 if it is not there, (n_wanted,).
std::vector<std::int64_t> find_strings(const StringsView& distinct, const StringsView& wanted, unsigned n_threads);

// The strings at `indices`, in that order; throws if an index is out of range.
OwnedStrings take_strings(const StringsView& strings, std::span<const std::int64_t> indices);

// The strings of all parts, in order; the parts are freed on the way.
OwnedStrings join_strings(std::span<OwnedStrings> parts);

// Indices of the strings in ascending order of their bytes, ties by index, (n,).
std::vector<std::int64_t> sort_strings(const StringsView& strings);

}  // namespace matchset
