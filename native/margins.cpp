#include "margins.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "avx512.hpp"
#include "simd.hpp"
#include "target_clones.hpp"

namespace matchset {
namespace {

template <typename Weight>
MATCHSET_INLINE float load_weight(const std::uint8_t* at, std::size_t i) {
  Weight weight;
  std::memcpy(&weight, at + i * sizeof weight, sizeof weight);
  return static_cast<float>(weight);
}

template <typename Weight>
MATCHSET_INLINE void add_sparse(const BlockView& block, std::span<const FoundRow> rows, float* sums) {
  constexpr std::uint32_t kStep = 4;  // entries beyond the row add zero to any child
  for (const FoundRow& row : rows) {
    const std::uint8_t* children = block.begin + row.at;
    const std::uint8_t* weights = children + row.room;
    std::uint32_t i = 0;
    do {
      for (std::uint32_t j = 0; j < kStep; ++j) {
        const float product = row.value * load_weight<Weight>(weights, i + j);
        const std::uint32_t mask = i + j < row.room ? ~0U : 0U;
        sums[children[i + j]] += std::bit_cast<float>(std::bit_cast<std::uint32_t>(product) & mask);
      }
      i += kStep;
    } while (i < row.room);
  }
}

// Dense rows, and rows with a bitmap, by plain loops.
template <typename Weight>
struct PlainRows {
  MATCHSET_INLINE static void add_dense(const BlockView& block, std::span<const FoundRow> rows, float* sums) {
    const std::size_t rounded = (block.n_children + 15) / 16 * 16;  // beyond the row: slack, added to sums of no child
    for (const FoundRow& row : rows)
      for (std::size_t i = 0; i < rounded; ++i) sums[i] += row.value * load_weight<Weight>(block.begin + row.at, i);
  }

  MATCHSET_INLINE static void add_bitmaps(const BlockView& block, const RowShape& shape, std::span<const FoundRow> rows,
                                          float* sums) {
    for (const FoundRow& row : rows) {
      const std::uint8_t *bitmap = block.begin + row.at, *weights = bitmap + shape.bitmap_bytes();
      for (std::uint32_t base = 0; base < shape.n_children; base += 64) {
        std::uint64_t bits;
        std::memcpy(&bits, bitmap + base / 8, sizeof bits);
        if (const std::uint32_t left = shape.bitmap_bytes() - base / 8; left < 8)
          bits &= (std::uint64_t{1} << 8 * left) - 1;
        for (; bits != 0; bits &= bits - 1, weights += sizeof(Weight))
          sums[base + static_cast<std::uint32_t>(std::countr_zero(bits))] +=
              row.value * load_weight<Weight>(weights, 0);
      }
    }
  }
};

#ifdef MATCHSET_AVX512
// The same with an instruction that no compiler finds in a plain loop: it expands packed numbers to the set bits.
template <typename Weight>
struct Avx512Rows {
  MATCHSET_AVX512 static __m512i load(const std::uint8_t* at, std::int8_t) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  MATCHSET_AVX512 static __m512 load(const std::uint8_t* at, float) { return _mm512_loadu_ps(at); }
  MATCHSET_AVX512 static __m512 spread(__mmask16 bits, __m512i packed) {
    return _mm512_cvtepi32_ps(_mm512_maskz_expand_epi32(bits, packed));
  }
  MATCHSET_AVX512 static __m512 spread(__mmask16 bits, __m512 packed) { return _mm512_maskz_expand_ps(bits, packed); }
  MATCHSET_AVX512 static void add(__m512 value, __m512 weights, float* sums) {
    _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_loadu_ps(sums), _mm512_mul_ps(value, weights)));
  }

  MATCHSET_AVX512 static void add_dense(const BlockView& block, std::span<const FoundRow> rows, float* sums) {
    for (const FoundRow& row : rows) {
      const __m512 value = _mm512_set1_ps(row.value);
      for (std::uint32_t base = 0; base < block.n_children; base += 16)
        add(value, spread(0xFFFF, load(block.begin + row.at + base * sizeof(Weight), Weight{})), sums + base);
    }
  }

  MATCHSET_AVX512 static void add_bitmaps(const BlockView& block, const RowShape& shape, std::span<const FoundRow> rows,
                                          float* sums) {
    for (const FoundRow& row : rows) {
      const std::uint8_t *bitmap = block.begin + row.at, *weights = bitmap + shape.bitmap_bytes();
      const __m512 value = _mm512_set1_ps(row.value);
      for (std::uint32_t base = 0; base < shape.n_children; base += 16) {
        std::uint16_t bits;
        std::memcpy(&bits, bitmap + base / 8, sizeof bits);
        if (shape.bitmap_bytes() - base / 8 < 2) bits &= 0xFF;
        add(value, spread(bits, load(weights, Weight{})), sums + base);
        weights += sizeof(Weight) * static_cast<unsigned>(std::popcount(bits));
      }
    }
  }
};
#endif

template <typename Weight, typename Rows>
MATCHSET_INLINE void compute(const BlockView& block, const FoundRows& rows, float* margins) {
  constexpr bool is_scaled = sizeof(Weight) == 1;
  const RowShape shape{block.n_children, sizeof(Weight)};
  const std::size_t rounded = (block.n_children + 15) / 16 * 16;
  if constexpr (is_scaled)
    std::fill_n(margins, rounded, 0.0F);
  else
    std::memcpy(margins, block.begin, rounded * sizeof(float));
  Rows::add_dense(block, rows.found(0), margins);
  Rows::add_bitmaps(block, shape, rows.found(1), margins);
  add_sparse<Weight>(block, rows.found(2), margins);
  if constexpr (is_scaled) {
    const std::uint8_t* scales = block.begin + block.n_children * sizeof(float);
    for (std::size_t i = 0; i < rounded; ++i) {
      std::uint16_t half;
      std::memcpy(&half, scales + 2 * i, sizeof half);
      const auto scale = std::bit_cast<float>(std::uint32_t{half} << 16);
      margins[i] = load_weight<float>(block.begin, i) + scale * margins[i];
    }
  }
}

MATCHSET_CLONES void compute_int8(const BlockView& block, const FoundRows& rows, float* margins) {
  compute<std::int8_t, PlainRows<std::int8_t>>(block, rows, margins);
}
MATCHSET_CLONES void compute_float32(const BlockView& block, const FoundRows& rows, float* margins) {
  compute<float, PlainRows<float>>(block, rows, margins);
}
#ifdef MATCHSET_AVX512
MATCHSET_AVX512 void compute_avx512(const BlockView& block, Precision precision, const FoundRows& rows,
                                    float* margins) {
  if (precision == Precision::int8)
    compute<std::int8_t, Avx512Rows<std::int8_t>>(block, rows, margins);
  else
    compute<float, Avx512Rows<float>>(block, rows, margins);
}
#endif

}  // namespace

void compute_margins(const BlockView& block, Precision precision, const FoundRows& rows, float* margins) {
#ifdef MATCHSET_AVX512
  if (has_avx512) return compute_avx512(block, precision, rows, margins);
#endif
  if (precision == Precision::int8)
    compute_int8(block, rows, margins);
  else
    compute_float32(block, rows, margins);
}

}  // namespace matchset
