// Threads that live for one call and go through its phases together.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace matchset {

// Work in phases that are too short for a thread to be started for each. Every member runs the same
// body; `each` hands the items of a phase out to all of them and returns when the phase is over.
class Crew {
 public:
  explicit Crew(unsigned n_members) : n_members_(std::max(1U, n_members)), phase_end_(n_members_, Close{this}) {}
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Calls body(member) once per member; throws what an item threw first.
  template <typename Body>
  void run(Body&& body) {
    std::vector<std::jthread> others;
    others.reserve(n_members_ - 1);
    try {
      for (unsigned member = 1; member < n_members_; ++member) others.emplace_back([&body, member] { body(member); });
    } catch (...) {  // no more threads: those that wait for the others must end
      fail(std::current_exception());
      for (std::size_t member = others.size() + 1; member < n_members_; ++member) phase_end_.arrive_and_drop();
      phase_end_.arrive_and_drop();  // in place of this one
      others.clear();
      std::rethrow_exception(failure_);
    }
    body(0U);
    others.clear();  // joins
    if (failure_) std::rethrow_exception(failure_);
  }

  // Calls work(item) for items below n_items, shared among the members, in order and one at a time. What an
  // item computes must not depend on the member. False when an item has failed: the body must end.
  template <typename Work>
  bool each(std::size_t n_items, Work&& work) {
    try {
      for (std::size_t item = next_++; item < n_items; item = next_++) work(item);
    } catch (...) {
      fail(std::current_exception());
    }
    phase_end_.arrive_and_wait();
    return !has_failed_;
  }

 private:
  // Nobody takes another item of this phase.
  void fail(std::exception_ptr failure) {
    next_ = std::numeric_limits<std::size_t>::max() / 2;
    const std::lock_guard guard(failure_lock_);
    if (!failure_) failure_ = std::move(failure);
  }

  // Runs once per phase, when all have arrived and before any goes on.
  struct Close {
    Crew* crew;
    void operator()() noexcept {
      crew->next_ = 0;
      crew->has_failed_ = crew->failure_ != nullptr;
    }
  };

  const unsigned n_members_;
  std::atomic<std::size_t> next_{0};
  std::exception_ptr failure_;
  std::mutex failure_lock_;
  bool has_failed_ = false;
  std::barrier<Close> phase_end_;
};

}  // namespace matchset
