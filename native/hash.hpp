// A 64-bit hash of bytes: fast for short strings, the same on every machine, not safe against hostile keys.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace matchset {
namespace hashing {

// Odd constants without a pattern: fractions of the golden ratio, of the roots of 2 and of 3.
inline constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
inline constexpr std::uint64_t kRoot2 = 0x6A09E667F3BCC909ULL;
inline constexpr std::uint64_t kRoot3 = 0xBB67AE8584CAA73BULL;

template <typename Word>
std::uint64_t load(const char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  if constexpr (std::endian::native == std::endian::big)
    word = sizeof word == 8 ? static_cast<Word>(__builtin_bswap64(word)) : static_cast<Word>(__builtin_bswap32(word));
  return word;
}

// Folds the 128-bit product: every bit of the result depends on every bit of both.
inline std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace hashing

inline std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0) {
  using namespace hashing;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t state = fold(seed ^ kGolden, left ^ kRoot2);
  for (; left > 16; at += 16, left -= 16)
    state = fold(load<std::uint64_t>(at) ^ kRoot3, load<std::uint64_t>(at + 8) ^ state);
  std::uint64_t first = 0, last = 0;  // the rest; the two reads overlap if it is short
  if (left >= 8) {
    first = load<std::uint64_t>(at), last = load<std::uint64_t>(at + left - 8);
  } else if (left >= 4) {
    first = load<std::uint32_t>(at), last = load<std::uint32_t>(at + left - 4);
  } else if (left > 0) {
    const auto byte = [at](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(at[i])}; };
    first = byte(0) << 16 | byte(left / 2) << 8 | byte(left - 1);
  }
  return fold(fold(first ^ kRoot3, last ^ state) ^ kGolden, state ^ kRoot2);
}

}  // namespace matchset
