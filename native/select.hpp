// Selection: which are the smallest of many keys?
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace matchset {

// Keeps the `k` smallest of distinct keys, ascending; `spare` is working memory.
void keep_smallest(std::vector<std::uint64_t>& keys, std::size_t k, std::vector<std::uint64_t>& spare);

// Keeps the `k` smallest of at least k distinct keys, in any order, and returns the largest of them.
std::uint64_t cut_smallest(std::vector<std::uint64_t>& keys, std::size_t k, std::vector<std::uint64_t>& spare);

// Keeps the keys up to `bound`, in the order that they have.
void keep_up_to(std::vector<std::uint64_t>& keys, std::uint64_t bound, std::vector<std::uint64_t>& spare);

}  // namespace matchset
