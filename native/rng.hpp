// Random numbers: they depend on the seed and the position in the tree, never on a thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace matchset {

// The splitmix64 generator (Steele, Lea, Flood 2014): one multiply-xor chain per draw, and every seed is good.
class Draws {
 public:
  explicit Draws(std::uint64_t seed, std::uint64_t stream = 0) : state_(seed ^ mixed(stream + kStep)) {}

  std::uint64_t next() { return mixed(state_ += kStep); }
  // A number below n; n must be positive. The bias of this reduction is below n / 2^32.
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(((next() >> 32) * n) >> 32); }

  template <typename T>
  void shuffle(std::span<T> items) {
    for (std::size_t left = items.size(); left > 1; --left)
      std::swap(items[left - 1], items[below(static_cast<std::uint32_t>(left))]);
  }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;
  static constexpr std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }
  std::uint64_t state_;
};

}  // namespace matchset
