// SIMD: vectors of 4, 8 or 16 floats, one lane per label.
//
// These are the vector types that GCC and Clang share. Unlike a loop over an array they stay in
// registers across an outer loop, and each target lowers them to what it has (one AVX-512 register,
// two AVX2 registers, four of SSE or NEON). Every operation is element-wise, so a lane's result does
// not depend on the width, on the other lanes or on the kind of CPU.
#pragma once

#include <cstddef>
#include <cstdint>

// Every function that takes or returns these types is inlined, so no call depends on the ABI.
#pragma GCC diagnostic ignored "-Wpsabi"
#define MATCHSET_INLINE inline __attribute__((always_inline))

namespace matchset {

template <std::size_t N>
struct LaneTypes;
template <>
struct LaneTypes<16> {
  using Floats = float __attribute__((vector_size(64)));
  using Stored = float __attribute__((vector_size(64), may_alias));
  using Bits = std::int32_t __attribute__((vector_size(64)));
};
template <>
struct LaneTypes<8> {
  using Floats = float __attribute__((vector_size(32)));
  using Stored = float __attribute__((vector_size(32), may_alias));
  using Bits = std::int32_t __attribute__((vector_size(32)));
};
template <>
struct LaneTypes<4> {
  using Floats = float __attribute__((vector_size(16)));
  using Stored = float __attribute__((vector_size(16), may_alias));
  using Bits = std::int32_t __attribute__((vector_size(16)));
};
template <std::size_t N>
using Floats = typename LaneTypes<N>::Floats;
template <std::size_t N>
using StoredFloats = typename LaneTypes<N>::Stored;  // in an array of floats
template <std::size_t N>
using Bits = typename LaneTypes<N>::Bits;  // a mask has all bits of a lane set, or none

// Comparisons are made from sign bits: GCC splits vector comparisons into lanes if the
// baseline target has no such instruction, and the clones for wider targets inherit that.
template <std::size_t N>
MATCHSET_INLINE Bits<N> is_negative(const Floats<N>& x) {
  return reinterpret_cast<Bits<N>>(x) >> 31;
}
template <std::size_t N>
MATCHSET_INLINE Floats<N> select(const Bits<N>& mask, const Floats<N>& a, const Floats<N>& b) {
  return reinterpret_cast<Floats<N>>((reinterpret_cast<Bits<N>>(a) & mask) | (reinterpret_cast<Bits<N>>(b) & ~mask));
}
template <std::size_t N>
MATCHSET_INLINE Floats<N> larger(const Floats<N>& a, const Floats<N>& b) {
  return select<N>(is_negative<N>(a - b), b, a);
}
// max(x, 0).
template <std::size_t N>
MATCHSET_INLINE Floats<N> positive_part(const Floats<N>& x) {
  return reinterpret_cast<Floats<N>>(reinterpret_cast<Bits<N>>(x) & ~is_negative<N>(x));
}
// One with the sign of x.
template <std::size_t N>
MATCHSET_INLINE Floats<N> sign_of(const Floats<N>& x) {
  constexpr std::int32_t kSign = std::int32_t{1} << 31, kOne = 0x3F800000;
  return reinterpret_cast<Floats<N>>((reinterpret_cast<Bits<N>>(x) & kSign) | kOne);
}

// Whether any bit is set in any lane: halves are joined until one word is left.
template <std::size_t N>
MATCHSET_INLINE bool any(const Bits<N>& bits) {
  if constexpr (N > 4) {
    Bits<N / 2> halves[2];
    __builtin_memcpy(halves, &bits, sizeof(halves));
    return any<N / 2>(halves[0] | halves[1]);
  } else {
    std::int64_t words[2];
    __builtin_memcpy(words, &bits, sizeof(words));
    return (words[0] | words[1]) != 0;
  }
}
template <std::size_t N>
MATCHSET_INLINE bool any_nonzero(const Floats<N>& x) {
  return any<N>(reinterpret_cast<Bits<N>>(x) << 1);  // zero has a sign
}

}  // namespace matchset
