// Dense vectors of floats, sixteen at a time: sums in one fixed order on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "simd.hpp"

namespace matchset {

constexpr std::size_t kLanes = 16;  // every dense vector has a multiple of this many dimensions
using Wide = Floats<kLanes>;
using WideBits = Bits<kLanes>;

// In an array of floats that may start anywhere.
template <std::size_t N>
struct Unaligned;
template <>
struct Unaligned<16> {
  using Type = float __attribute__((vector_size(64), may_alias, aligned(4)));
};
template <>
struct Unaligned<8> {
  using Type = float __attribute__((vector_size(32), may_alias, aligned(4)));
};
template <>
struct Unaligned<4> {
  using Type = float __attribute__((vector_size(16), may_alias, aligned(4)));
};

template <std::size_t N>
MATCHSET_INLINE Floats<N> load_lanes(const float* p) {
  return *reinterpret_cast<const typename Unaligned<N>::Type*>(p);
}
template <std::size_t N>
MATCHSET_INLINE void store_lanes(float* p, const Floats<N>& x) {
  *reinterpret_cast<typename Unaligned<N>::Type*>(p) = x;
}
MATCHSET_INLINE Wide load(const float* p) { return load_lanes<kLanes>(p); }
MATCHSET_INLINE void store(float* p, const Wide& x) { store_lanes<kLanes>(p, x); }
MATCHSET_INLINE Wide fill(float x) { return Wide{} + x; }

// Sum of the lanes, halves first.
template <std::size_t N>
MATCHSET_INLINE float add_lanes(const Floats<N>& x) {
  Floats<N / 2> halves[2];
  __builtin_memcpy(halves, &x, sizeof(halves));
  const Floats<N / 2> sum = halves[0] + halves[1];
  if constexpr (N > 8)
    return add_lanes<N / 2>(sum);
  else
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

MATCHSET_INLINE float dot(const float* a, const float* b, std::size_t n) {
  Wide sum{};
  for (std::size_t k = 0; k < n; k += kLanes) sum += load(a + k) * load(b + k);
  return add_lanes<kLanes>(sum);
}

// e^x for x <= 0, within 1e-6 of it relatively; below -87 it stays at e^-87.
MATCHSET_INLINE Wide exp_negative(const Wide& given) {
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const Wide x = larger<kLanes>(given, fill(-87.0F));
  const Wide shifted = x * 1.44269504F + kMagic, n = shifted - kMagic;
  const Wide r = (x - n * 0.693145752F) - n * 1.42860677e-6F;  // ln 2 in two parts: the first times n is exact
  Wide y = fill(1.0F / 5040);
  for (const float c : {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F}) y = y * r + c;
  const WideBits exponent = reinterpret_cast<WideBits>(shifted) << 23;
  return reinterpret_cast<Wide>(reinterpret_cast<WideBits>(y) + exponent);
}

}  // namespace matchset
