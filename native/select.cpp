#include "select.hpp"

#include <algorithm>

#include "clones.hpp"

namespace matchset {
namespace {

std::uint64_t middle(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

// Moves keys up to `pivot` to the front, the others to `above`; returns how many are at the front. Every key is
// written to both and counted in one: whether it is smaller cannot be guessed, so nothing branches on it.
std::size_t split(std::uint64_t* keys, std::size_t n, std::uint64_t pivot, std::uint64_t* above) {
  std::size_t n_below = 0, n_above = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t key = keys[i];
    const bool is_below = key <= pivot;
    keys[n_below] = key;
    above[n_above] = key;
    n_below += is_below;
    n_above += !is_below;
  }
  return n_below;
}

// Puts the k smallest first, in any order.
void select(std::uint64_t* keys, std::size_t n, std::size_t k, std::uint64_t* spare) {
  while (n > 16 && k < n && k > 0) {
    const std::size_t n_below = split(keys, n, middle(keys[0], keys[n / 2], keys[n - 1]), spare);
    if (n_below == n) break;  // equal keys, which do not occur
    if (n_below <= k) {
      std::copy_n(spare, n - n_below, keys + n_below);
      keys += n_below, n -= n_below, k -= n_below;
    } else {
      n = n_below;
    }
  }
  if (k < n) std::nth_element(keys, keys + k, keys + n);
}

// Each key goes where as many are smaller: for a hundred keys faster than any sort that branches.
MATCHSET_CLONES void sort_by_rank(const std::uint64_t* keys, std::size_t n, std::uint64_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t rank = 0;
    for (std::size_t j = 0; j < n; ++j) rank += keys[j] < keys[i] ? 1U : 0U;
    out[rank] = keys[i];
  }
}

}  // namespace

void keep_smallest(std::vector<std::uint64_t>& keys, std::size_t k, std::vector<std::uint64_t>& spare) {
  constexpr std::size_t kRanked = 160;
  if (spare.size() < keys.size()) spare.resize(keys.size());
  select(keys.data(), keys.size(), k, spare.data());
  if (k < keys.size()) keys.resize(k);
  if (keys.size() > kRanked) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  std::copy(keys.begin(), keys.end(), spare.begin());
  sort_by_rank(spare.data(), keys.size(), keys.data());
}

}  // namespace matchset
