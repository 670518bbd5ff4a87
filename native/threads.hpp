// Threads that live for one call: fork-safe, no pool, no globals.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
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

// Calls work(item) for every item, and for those that it returns in turn: the largest that waits is the next.
template <typename Item, typename Work>
void parallel_unfold(std::vector<Item> items, unsigned n_threads, Work&& work) {
  const auto is_smaller = [](const Item& a, const Item& b) { return a.size() < b.size(); };
  std::ranges::make_heap(items, is_smaller);
  std::mutex lock;
  std::condition_variable has_changed;
  std::size_t n_working = 0;
  bool has_failed = false;
  const auto run = [&](std::size_t) {
    std::unique_lock guard(lock);
    while (true) {
      has_changed.wait(guard, [&] { return !items.empty() || n_working == 0 || has_failed; });
      if (items.empty() || has_failed) return;
      std::ranges::pop_heap(items, is_smaller);
      Item item = std::move(items.back());
      items.pop_back();
      ++n_working;
      guard.unlock();
      try {
        std::vector<Item> found = work(std::move(item));
        guard.lock();
        for (Item& one : found) {
          items.push_back(std::move(one));
          std::ranges::push_heap(items, is_smaller);
        }
      } catch (...) {
        if (!guard.owns_lock()) guard.lock();
        has_failed = true;
        has_changed.notify_all();
        throw;
      }
      --n_working;
      has_changed.notify_all();
    }
  };
  parallel_for(std::max(1U, n_threads), n_threads, run);
}

}  // namespace matchset
