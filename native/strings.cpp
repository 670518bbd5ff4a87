#include "strings.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace matchset {

void StringTable::grow() {
  Buffer<Slot> old(2 * slots_.size());
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.index < 0) continue;
    std::size_t at = slot.hash & mask;
    while (slots_[at].index >= 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

Grouping group_strings(const StringsView& strings) {
  if (strings.size() > std::size_t{std::numeric_limits<std::int32_t>::max()})
    throw std::length_error("at most 2147483647 strings can be grouped");
  Grouping grouping;
  grouping.group.reserve(strings.size());
  StringTable table(strings.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto fresh = static_cast<std::int64_t>(grouping.first.size());
    const std::int64_t group = table.insert(strings[i], fresh, [&](std::int64_t g) {
      return strings[static_cast<std::size_t>(grouping.first[static_cast<std::size_t>(g)])];
    });
    if (group == fresh) grouping.first.push_back(static_cast<std::int64_t>(i));
    grouping.group.push_back(static_cast<std::int32_t>(group));
  }
  return grouping;
}

std::vector<std::int64_t> find_strings(const StringsView& distinct, const StringsView& wanted) {
  const auto text_at = [&](std::int64_t index) { return distinct[static_cast<std::size_t>(index)]; };
  StringTable table(distinct.size());
  for (std::size_t i = 0; i < distinct.size(); ++i) table.insert(distinct[i], static_cast<std::int64_t>(i), text_at);
  std::vector<std::int64_t> indices(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) indices[i] = table.find(wanted[i], text_at);
  return indices;
}

OwnedStrings take_strings(const StringsView& strings, std::span<const std::int64_t> indices) {
  OwnedStrings taken;
  taken.offsets.reserve(indices.size() + 1);
  std::int64_t end = 0;
  for (const std::int64_t index : indices) {
    if (index < 0 || static_cast<std::uint64_t>(index) >= strings.size())
      throw std::out_of_range("indices must be within the strings");
    end += static_cast<std::int64_t>(strings[static_cast<std::size_t>(index)].size());
    taken.offsets.push_back(end);
  }
  taken.data.reserve(static_cast<std::size_t>(end));
  for (const std::int64_t index : indices) {
    const std::string_view text = strings[static_cast<std::size_t>(index)];
    taken.data.insert(taken.data.end(), text.begin(), text.end());
  }
  return taken;
}

OwnedStrings join_strings(std::span<OwnedStrings> parts) {
  std::size_t n_bytes = 0, n = 1;
  for (const OwnedStrings& part : parts) {
    n_bytes += part.data.size();
    n += part.offsets.size() - 1;
  }
  OwnedStrings all;
  all.data.reserve(n_bytes);
  all.offsets.reserve(n);
  for (OwnedStrings& part : parts) {
    const auto base = static_cast<std::int64_t>(all.data.size());
    all.data.insert(all.data.end(), part.data.begin(), part.data.end());
    for (std::size_t i = 1; i < part.offsets.size(); ++i) all.offsets.push_back(base + part.offsets[i]);
    part = {};
  }
  return all;
}

std::vector<std::int64_t> sort_strings(const StringsView& strings) {
  // The first eight bytes decide most comparisons without a cache miss in the buffer.
  struct Entry {
    std::uint64_t prefix;
    std::int64_t index;
  };
  const auto text_at = [&](const Entry& entry) { return strings[static_cast<std::size_t>(entry.index)]; };
  Buffer<Entry> entries(strings.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::string_view text = strings[i];
    entries[i] = {sort_prefix(text), static_cast<std::int64_t>(i)};
  }
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const int order = text_at(a).compare(text_at(b));
    return order != 0 ? order < 0 : a.index < b.index;
  });
  std::vector<std::int64_t> indices(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) indices[i] = entries[i].index;
  return indices;
}

}  // namespace matchset
