// Sorting with several threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "threads.hpp"

namespace matchset {

// Sorts by an order without ties, so that the result does not depend on the number of threads.
template <typename Items, typename Less>
void parallel_sort(Items& items, unsigned n_threads, Less less) {
  constexpr std::size_t kLeast = 4096;  // items that are worth a thread
  const std::size_t n_runs = std::bit_floor(std::clamp<std::size_t>(items.size() / kLeast, 1, std::max(1u, n_threads)));
  const auto run = [&](std::size_t i) {
    return items.begin() + static_cast<std::ptrdiff_t>(items.size() * i / n_runs);
  };
  parallel_for(n_runs, n_threads, [&](std::size_t i) { std::sort(run(i), run(i + 1), less); });
  for (std::size_t width = 1; width < n_runs; width *= 2)
    parallel_for(n_runs / (2 * width), n_threads, [&](std::size_t i) {
      const std::size_t begin = 2 * width * i;
      std::inplace_merge(run(begin), run(begin + width), run(begin + 2 * width), less);
    });
}

}  // namespace matchset
