// Sixteen labels at once: vectors of floats, one lane per label.
//
// These are the vector types that GCC and Clang share. Unlike a loop over an array they stay in
// registers across an outer loop, and each target lowers them to what it has (one AVX-512 register,
// two AVX2 registers, four of SSE or NEON). Every operation is element-wise, so a lane's result does
// not depend on the width, on the other lanes or on the kind of CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#define MATCHSET_INLINE inline __attribute__((always_inline))

namespace matchset {

template <std::size_t N>
struct LaneTypes;
template <>
struct LaneTypes<16> {
  using Floats = float __attribute__((vector_size(64)));
  using Bits = std::int32_t __attribute__((vector_size(64)));
};
template <>
struct LaneTypes<8> {
  using Floats = float __attribute__((vector_size(32)));
  using Bits = std::int32_t __attribute__((vector_size(32)));
};
template <>
struct LaneTypes<4> {
  using Floats = float __attribute__((vector_size(16)));
  using Bits = std::int32_t __attribute__((vector_size(16)));
};
template <std::size_t N>
using Floats = typename LaneTypes<N>::Floats;
template <std::size_t N>
using Bits = typename LaneTypes<N>::Bits;  // a comparison gives -1 where it holds, else 0

// Whether any lane is set: halves are or-ed together, which every target has instructions for.
template <std::size_t N>
MATCHSET_INLINE bool any(const Bits<N>& bits) {
  std::int64_t joined = 0;
  std::int64_t words[N / 2];
  __builtin_memcpy(words, &bits, sizeof(words));
  for (const std::int64_t word : words) joined |= word;
  return joined != 0;
}

template <std::size_t N>
MATCHSET_INLINE Floats<N> larger(const Floats<N>& a, const Floats<N>& b) {
  return a > b ? a : b;
}
template <std::size_t N>
MATCHSET_INLINE Floats<N> smaller(const Floats<N>& a, const Floats<N>& b) {
  return a < b ? a : b;
}

}  // namespace matchset
