#include "vocabulary.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace matchset {

std::vector<Slot> lay_out_slots(std::span<const std::uint64_t> keys, std::span<const float> idf,
                                std::uint64_t n_homes) {
  std::vector<std::uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return std::pair(keys[a], a) < std::pair(keys[b], b); });
  std::vector<Slot> slots;
  slots.reserve(n_homes + 64);
  for (const std::uint32_t id : order) {
    const std::uint64_t home = home_of(keys[id], n_homes);
    if (!slots.empty() && slots.back().key == keys[id]) continue;  // two kinds share a hash: the first one keeps it
    while (slots.size() < home) slots.push_back({kFreeKey, 0, 0});
    slots.push_back({keys[id], id, idf[id]});
  }
  while (slots.size() < n_homes) slots.push_back({kFreeKey, 0, 0});
  return slots;
}

}  // namespace matchset
