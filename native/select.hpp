// The smallest of many keys, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace matchset {

// Leaves the `k` smallest of distinct keys, ascending; `spare` is memory to work in.
void keep_smallest(std::vector<std::uint64_t>& keys, std::size_t k, std::vector<std::uint64_t>& spare);

// Leaves the `k` smallest of at least as many distinct keys, in any order, and returns the largest of them.
std::uint64_t cut_smallest(std::vector<std::uint64_t>& keys, std::size_t k, std::vector<std::uint64_t>& spare);

}  // namespace matchset
