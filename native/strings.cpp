#include "strings.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kChunk = 8192;  // strings that a thread takes at a time

std::size_t count_chunks(const StringsView& strings) { return (strings.size() + kChunk - 1) / kChunk; }

}  // namespace

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

std::vector<std::int64_t> find_strings(const StringsView& distinct, const StringsView& wanted, unsigned n_threads) {
  // A table that threads fill together: since no string is there twice, none must be compared with another.
  Buffer<std::int64_t> slots(std::bit_ceil(2 * distinct.size() + 2), -1);
  Buffer<std::uint64_t> hashes(distinct.size());
  const std::size_t mask = slots.size() - 1;
  parallel_for(count_chunks(distinct), n_threads, [&](std::size_t chunk) {
    for (std::size_t i = chunk * kChunk; i < std::min(distinct.size(), (chunk + 1) * kChunk); ++i) {
      hashes[i] = hash_bytes(distinct[i]);
      std::size_t at = hashes[i] & mask;
      for (std::int64_t free = -1;
           !std::atomic_ref(slots[at]).compare_exchange_strong(free, static_cast<std::int64_t>(i)); free = -1)
        at = (at + 1) & mask;
    }
  });
  std::vector<std::int64_t> indices(wanted.size());
  parallel_for(count_chunks(wanted), n_threads, [&](std::size_t chunk) {
    for (std::size_t i = chunk * kChunk; i < std::min(wanted.size(), (chunk + 1) * kChunk); ++i) {
      const std::uint64_t hash = hash_bytes(wanted[i]);
      const auto is_it = [&](auto index) { return hashes[index] == hash && distinct[index] == wanted[i]; };
      std::size_t at = hash & mask;
      while (slots[at] >= 0 && !is_it(static_cast<std::size_t>(slots[at]))) at = (at + 1) & mask;
      indices[i] = slots[at];
    }
  });
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
