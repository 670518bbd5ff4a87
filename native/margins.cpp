#include "margins.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "clones.hpp"
#include "lanes.hpp"

#if defined(__x86_64__) && !defined(MATCHSET_NO_CLONES)
#define MATCHSET_EXPAND 1
#include <immintrin.h>
#endif

namespace matchset {
namespace {

// Sixteen keys of a chunk at once.
template <typename Key>
struct Keys;
template <>
struct Keys<std::uint16_t> {
  using Lanes = std::int16_t __attribute__((vector_size(32)));
  static constexpr Lanes kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};
template <>
struct Keys<std::uint32_t> {
  using Lanes = std::int32_t __attribute__((vector_size(64)));
  static constexpr Lanes kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

// Sums of two sets of lanes at once: `low`, below 2^16 in all, and above it `high`.
MATCHSET_INLINE std::uint32_t sum(const Keys<std::uint16_t>::Lanes& low, const Keys<std::uint16_t>::Lanes& high) {
  using Words = std::uint32_t __attribute__((vector_size(32)));
  using Half = std::uint32_t __attribute__((vector_size(16)));
  const auto l = reinterpret_cast<Words>(low), h = reinterpret_cast<Words>(high);
  const Words w = (l & 0xFFFF) + (l >> 16) + (h << 16) + (h & 0xFFFF0000);
  Half s = __builtin_shufflevector(w, w, 0, 1, 2, 3) + __builtin_shufflevector(w, w, 4, 5, 6, 7);
  s += __builtin_shufflevector(s, s, 2, 3, 0, 1);
  s += __builtin_shufflevector(s, s, 1, 0, 3, 2);
  return s[0];
}
MATCHSET_INLINE std::uint32_t sum(const Keys<std::uint32_t>::Lanes& low, const Keys<std::uint32_t>::Lanes& high) {
  std::uint32_t total = 0;
  for (int i = 0; i < 16; ++i) total += static_cast<std::uint32_t>(low[i] + (high[i] << 16));
  return total;
}

// What find_row needs to know of a block.
struct KeyRule {
  explicit KeyRule(const RowShape& shape)
      : bitmap_from(static_cast<std::int16_t>(shape.bitmap_from())), step(static_cast<std::int16_t>(shape.step())),
        bitmap_bytes(static_cast<std::int16_t>(shape.bitmap_bytes())),
        dense_bytes(static_cast<std::int16_t>(shape.size(kDenseCode))) {}
  std::int16_t bitmap_from, step, bitmap_bytes, dense_bytes;
};

struct RowPlace {
  std::size_t at;      // from the start of the chunk
  std::uint32_t code;  // plus one, 0 where the feature has no row
};

// Finds a tag in a chunk. Keys ascend, so the rows before it are those with a smaller tag.
template <typename Key, std::int16_t kWeightBytes>
MATCHSET_INLINE RowPlace find_row(const std::uint8_t* chunk, std::uint32_t tag, const KeyRule& rule) {
  using Lanes = typename Keys<Key>::Lanes;
  using Lane = std::make_signed_t<Key>;
  const std::uint32_t n_rows = chunk[0];
  RowPlace row{1 + n_rows * sizeof(Key), 0};
  std::uint32_t r = 0;
  do {  // once, but for a few
    Lanes keys;
    std::memcpy(&keys, chunk + 1 + r * sizeof(Key), sizeof keys);
    const Lanes code = keys & static_cast<Lane>(kDenseCode);
    const Lanes tags = (keys >> kCodeBits) & static_cast<Lane>((1U << (8 * sizeof(Key) - kCodeBits)) - 1);
    const Lanes room = code < 16 ? code + 1 : (code - 15) * static_cast<Lane>(rule.step) + 16;
    const Lanes head = room >= static_cast<Lane>(rule.bitmap_from) ? (code & 0) + static_cast<Lane>(rule.bitmap_bytes) : room;
    Lanes size = room * kWeightBytes + head;
    size = code == static_cast<Lane>(kDenseCode) ? (code & 0) + static_cast<Lane>(rule.dense_bytes) : size;
    const Lanes is_row = Keys<Key>::kLane < static_cast<Lane>(n_rows - r);
    const Lanes wanted = (code & 0) + static_cast<Lane>(tag);
    const std::uint32_t total = sum(size & (tags < wanted) & is_row, (code + 1) & (tags == wanted) & is_row);
    row.at += total & 0xFFFF;  // at most 16 rows of 1,088 bytes
    row.code += total >> 16;
    r += 16;
  } while (r < n_rows);
  return row;
}

template <typename Weight>
MATCHSET_INLINE float load_weight(const std::uint8_t* at, std::size_t i) {
  Weight weight;
  std::memcpy(&weight, at + i * sizeof weight, sizeof weight);
  return static_cast<float>(weight);
}

// Sorts the rows that the features have in a block by form. No branch depends on what is found: a wrong
// guess of the processor costs as much as all the work on a feature.
template <typename Weight, typename Key>
MATCHSET_INLINE void find_rows(const BlockView& block, const RowShape& shape, const FeatureChunks& features, FoundRows& out) {
  const KeyRule rule(shape);
  const auto tag_mask = static_cast<std::uint32_t>((std::uint64_t{1} << block.tag_bits) - 1);
  FoundRow* ends[3] = {out.rows[0].data(), out.rows[1].data(), out.rows[2].data()};
  for (std::size_t f = 0; f < features.features.size(); ++f) {
    const auto [hash, value] = features.features[f];
    const std::uint32_t chunk = features.chunks[f];
    const RowPlace row = find_row<Key, sizeof(Weight)>(block.begin + chunk, hash & tag_mask, rule);
    // Code 0 is of no row; two damaged rows of one tag may give a code that does not exist.
    const RowForm& form = out.forms.of[std::min<std::uint32_t>(row.code, kDenseCode + 2)];
    const std::size_t at = chunk + row.at;
    *ends[form.list] = {static_cast<std::uint32_t>(at), form.room, value};
    ends[form.list] += static_cast<std::size_t>(chunk != 0) & static_cast<std::size_t>(at + form.size <= block.size);
  }
  for (std::size_t list = 0; list < 3; ++list) out.n[list] = static_cast<std::size_t>(ends[list] - out.rows[list].data());
}

template <typename Weight>
MATCHSET_INLINE void add_dense(const BlockView& block, std::span<const FoundRow> rows, float* sums) {
  const std::size_t rounded = (block.n_children + 15) / 16 * 16;  // beyond the row: slack, into sums of no child
  for (const FoundRow& row : rows)
    for (std::size_t i = 0; i < rounded; ++i) sums[i] += row.value * load_weight<Weight>(block.begin + row.at, i);
}

template <typename Weight>
MATCHSET_INLINE void add_sparse(const BlockView& block, std::span<const FoundRow> rows, float* sums) {
  constexpr std::uint32_t kStep = 4;  // what is beyond the row adds zero to any child
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

template <typename Weight>
void add_bitmaps(const BlockView& block, const RowShape& shape, std::span<const FoundRow> rows, float* sums) {
  for (const FoundRow& row : rows) {
    const std::uint8_t *bitmap = block.begin + row.at, *weights = bitmap + shape.bitmap_bytes();
    for (std::uint32_t base = 0; base < shape.n_children; base += 64) {
      std::uint64_t bits;
      std::memcpy(&bits, bitmap + base / 8, sizeof bits);
      if (const std::uint32_t left = shape.bitmap_bytes() - base / 8; left < 8) bits &= (std::uint64_t{1} << 8 * left) - 1;
      for (; bits != 0; bits &= bits - 1, weights += sizeof(Weight))
        sums[base + static_cast<std::uint32_t>(std::countr_zero(bits))] += row.value * load_weight<Weight>(weights, 0);
    }
  }
}

#ifdef MATCHSET_EXPAND
// The same with an instruction that spreads packed numbers over the set bits, which no plain loop becomes.
template <typename Weight>
__attribute__((target("arch=x86-64-v4"))) void expand_bitmaps(const BlockView& block, const RowShape& shape,
                                                              std::span<const FoundRow> rows, float* sums) {
  for (const FoundRow& row : rows) {
    const std::uint8_t *bitmap = block.begin + row.at, *weights = bitmap + shape.bitmap_bytes();
    const __m512 value = _mm512_set1_ps(row.value);
    for (std::uint32_t base = 0; base < shape.n_children; base += 16) {
      std::uint16_t bits;
      std::memcpy(&bits, bitmap + base / 8, sizeof bits);
      if (shape.bitmap_bytes() - base / 8 < 2) bits &= 0xFF;
      __m512 spread;
      if constexpr (sizeof(Weight) == 1) {
        const __m512i packed = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(weights)));
        spread = _mm512_cvtepi32_ps(_mm512_maskz_expand_epi32(bits, packed));
      } else {
        spread = _mm512_maskz_expand_ps(bits, _mm512_loadu_ps(weights));
      }
      const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(sums + base), _mm512_mul_ps(value, spread));
      _mm512_storeu_ps(sums + base, sum);
      weights += sizeof(Weight) * static_cast<unsigned>(std::popcount(bits));
    }
  }
}
const bool can_expand = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                        __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                        __builtin_cpu_supports("avx512cd") != 0;
#endif

template <typename Weight>
MATCHSET_INLINE void compute(const BlockView& block, const FeatureChunks& features, FoundRows& rows, float* margins) {
  constexpr bool is_scaled = sizeof(Weight) == 1;
  const RowShape shape{block.n_children, sizeof(Weight)};
  const std::size_t rounded = (block.n_children + 15) / 16 * 16;
  rows.forms.prepare(shape);
  if (block.key_bytes() == 2)
    find_rows<Weight, std::uint16_t>(block, shape, features, rows);
  else
    find_rows<Weight, std::uint32_t>(block, shape, features, rows);
  if constexpr (is_scaled)
    std::fill_n(margins, rounded, 0.0F);
  else
    std::memcpy(margins, block.begin, rounded * sizeof(float));
  add_dense<Weight>(block, rows.found(0), margins);
#ifdef MATCHSET_EXPAND
  if (can_expand)
    expand_bitmaps<Weight>(block, shape, rows.found(1), margins);
  else
#endif
    add_bitmaps<Weight>(block, shape, rows.found(1), margins);
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

MATCHSET_CLONES void compute_int8(const BlockView& block, const FeatureChunks& features, FoundRows& rows, float* margins) {
  compute<std::int8_t>(block, features, rows, margins);
}
MATCHSET_CLONES void compute_float32(const BlockView& block, const FeatureChunks& features, FoundRows& rows,
                                     float* margins) {
  compute<float>(block, features, rows, margins);
}

}  // namespace

void compute_margins(const BlockView& block, Precision precision, const FeatureChunks& features, FoundRows& rows,
                     float* margins) {
  if (precision == Precision::int8)
    compute_int8(block, features, rows, margins);
  else
    compute_float32(block, features, rows, margins);
}

}  // namespace matchset
