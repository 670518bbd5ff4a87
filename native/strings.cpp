#include "strings.hpp"

#include <bit>
#include <limits>

namespace matchset {
namespace {

// Open addressing over the places of distinct strings.
class PlaceTable {
 public:
  explicit PlaceTable(std::size_t n) : mask_(std::bit_ceil(2 * n + 2) - 1), slots_(mask_ + 1) {}

  // Place of a string equal to `text`, or `fresh` after inserting it.
  template <typename Text>
  std::int64_t insert(std::string_view text, std::int64_t fresh, Text&& text_at) {
    Slot& slot = probe(text, text_at);
    if (slot.place < 0) slot = {hash_bytes(text), fresh};
    return slot.place;
  }
  template <typename Text>
  std::int64_t find(std::string_view text, Text&& text_at) {
    return probe(text, text_at).place;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::int64_t place = -1;
  };
  template <typename Text>
  Slot& probe(std::string_view text, Text&& text_at) {
    const std::uint64_t hash = hash_bytes(text);
    for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
      Slot& slot = slots_[at];
      if (slot.place < 0 || (slot.hash == hash && text_at(slot.place) == text)) return slot;
    }
  }
  std::size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace

Grouping group_strings(const StringsView& strings) {
  if (strings.size() > std::size_t{std::numeric_limits<std::int32_t>::max()})
    throw std::length_error("at most 2147483647 strings can be grouped");
  Grouping grouping;
  grouping.group.reserve(strings.size());
  PlaceTable table(strings.size());
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
  const auto text_at = [&](std::int64_t place) { return distinct[static_cast<std::size_t>(place)]; };
  PlaceTable table(distinct.size());
  for (std::size_t i = 0; i < distinct.size(); ++i) table.insert(distinct[i], static_cast<std::int64_t>(i), text_at);
  std::vector<std::int64_t> places(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) places[i] = table.find(wanted[i], text_at);
  return places;
}

}  // namespace matchset
