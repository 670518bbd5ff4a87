#include "vocabulary.hpp"

#include <functional>
#include <utility>

#include "parallel_sort.hpp"

namespace matchset {

std::vector<Slot> lay_out_slots(std::span<const std::uint64_t> keys, std::span<const float> idf, std::uint64_t n_homes,
                                unsigned n_threads) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order(keys.size());
  for (std::size_t id = 0; id < keys.size(); ++id) order[id] = {keys[id], static_cast<std::uint32_t>(id)};
  parallel_sort(order, n_threads, std::less<>());
  std::vector<Slot> slots;
  slots.reserve(n_homes + 64);
  for (const auto& [key, id] : order) {
    const std::uint64_t home = home_of(key, n_homes);
    if (!slots.empty() && slots.back().key == key) continue;  // two kinds share a hash: the first one keeps it
    while (slots.size() < home) slots.push_back({kFreeKey, 0, 0});
    slots.push_back({key, id, idf[id]});
  }
  while (slots.size() < n_homes) slots.push_back({kFreeKey, 0, 0});
  return slots;
}

}  // namespace matchset
