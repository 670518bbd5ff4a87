// Threads that live for one call: fork-safe, no pool, no globals.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace matchset {

// Calls work(item) for every item in [0, n_items); items are handed out in order, one at a time.
// What an item computes must not depend on the thread that ran it.
template <typename Work>
void parallel_for(std::size_t n_items, unsigned n_threads, Work&& work) {
  const auto n_workers = static_cast<unsigned>(std::min<std::size_t>(std::max(1u, n_threads), n_items));
  if (n_workers <= 1) {
    for (std::size_t item = 0; item < n_items; ++item) work(item);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  auto run = [&] {
    try {
      for (std::size_t item = next++; item < n_items; item = next++) work(item);
    } catch (...) {
      next = n_items;
      const std::lock_guard guard(failure_lock);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  others.reserve(n_workers - 1);
  for (unsigned i = 1; i < n_workers; ++i) others.emplace_back(run);
  run();
  others.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace matchset
