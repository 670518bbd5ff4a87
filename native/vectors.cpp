#include "vectors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "avx512.hpp"
#include "dense.hpp"
#include "target_clones.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kTexts = 256;  // per item of work
constexpr std::size_t kAhead = 16;   // features whose embeddings are asked for early

MATCHSET_CLONES void add_bytes(const std::int8_t* row, float scale, std::size_t d, float* sum) {
  for (std::size_t k = 0; k < d; ++k) sum[k] += scale * static_cast<float>(row[k]);
}

MATCHSET_CLONES void scale_to_one(float* vector, std::size_t d) {
  const float length = std::sqrt(dot(vector, vector, d));
  if (!(length > 0)) return;
  const float scale = 1 / length;
  for (std::size_t k = 0; k < d; ++k) vector[k] *= scale;
}

// A query in the forms that multiplications want.
struct QueryBytes {
  const std::int8_t* bytes;
  const std::int16_t* words;
  std::int32_t sum;
  float scale;
};

constexpr std::size_t kScales = 16;  // of a cache line

// Vectors one after another; the same number from `next` on are fetched meanwhile, as far as they go.
struct Run {
  const ByteVectors& vectors;
  std::size_t begin, next;

  std::size_t row(std::size_t i) const { return begin + i; }
  void prefetch(std::size_t i) const {
    if (next + i < vectors.size()) vectors.prefetch(next + i, i % kScales == 0);
  }
};
// Vectors that lie anywhere, and have been fetched.
struct Some {
  const ByteVectors& vectors;
  const std::uint32_t* rows;

  std::size_t row(std::size_t i) const { return rows[i]; }
  void prefetch(std::size_t) const {}
};

// Sums of integers: exact in any order, so the compiler may take any instruction for them.
template <typename Rows>
MATCHSET_INLINE void score_rows(const QueryBytes& query, const Rows& rows, std::size_t n, float* out) {
  const std::size_t d = rows.vectors.dimensions;
  for (std::size_t i = 0; i < n; ++i) {
    rows.prefetch(i);
    const std::int8_t* row = rows.vectors.row(rows.row(i));
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < d; ++k) sum += std::int32_t{query.words[k]} * std::int32_t{std::int16_t{row[k]}};
    out[i] = static_cast<float>(sum) * (query.scale * rows.vectors.scales[rows.row(i)]);
  }
}

MATCHSET_CLONES void score_run(const QueryBytes& query, const Run& rows, std::size_t n, float* out) {
  score_rows(query, rows, n, out);
}
MATCHSET_CLONES void score_some(const QueryBytes& query, const Some& rows, std::size_t n, float* out) {
  score_rows(query, rows, n, out);
}

#ifdef MATCHSET_AVX512
constexpr std::size_t kBytes = 64, kRows = 4;  // of a register; that are scored together

// The sum of the lanes of each of four registers.
MATCHSET_VNNI inline __m128i add_lanes_of(const __m512i (&sums)[kRows]) {
  const __m512i low =
      _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]), _mm512_unpackhi_epi32(sums[0], sums[1]));
  const __m512i high =
      _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2], sums[3]), _mm512_unpackhi_epi32(sums[2], sums[3]));
  const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// The instruction wants one side without a sign: each byte of a vector is taken as 128 more than it is, which adds 128
// times the sum of the query.
template <typename Rows>
MATCHSET_VNNI void score_vnni(const QueryBytes& query, const Rows& rows, std::size_t n, float* out) {
  const std::size_t d = rows.vectors.dimensions;
  const __m512i shift = _mm512_set1_epi8(-128);
  const __m128i excess = _mm_set1_epi32(128 * query.sum);
  for (std::size_t i = 0; i < n; i += kRows) {
    const std::int8_t* begins[kRows];
    alignas(16) float scales[kRows];
    const std::size_t n_left = std::min(kRows, n - i);
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t at = i + std::min(r, n_left - 1);
      if (r < n_left) rows.prefetch(at);
      begins[r] = rows.vectors.row(rows.row(at));
      scales[r] = rows.vectors.scales[rows.row(at)];
    }
    __m512i sums[kRows] = {};
    for (std::size_t k = 0; k < d; k += kBytes) {
      const __m512i wanted = _mm512_loadu_si512(query.bytes + k);
      for (std::size_t r = 0; r < kRows; ++r)
        sums[r] = _mm512_dpbusd_epi32(sums[r], _mm512_xor_si512(_mm512_loadu_si512(begins[r] + k), shift), wanted);
    }
    const __m128 dots = _mm_cvtepi32_ps(_mm_sub_epi32(add_lanes_of(sums), excess));
    const __m128 scores = _mm_mul_ps(dots, _mm_mul_ps(_mm_set1_ps(query.scale), _mm_load_ps(scales)));
    _mm_mask_storeu_ps(out + i, static_cast<__mmask8>((1U << n_left) - 1), scores);
  }
}
#endif

void score_all(const QueryBytes& query, const Run& rows, std::size_t n, float* out) {
#ifdef MATCHSET_AVX512
  if (has_vnni && rows.vectors.dimensions % kBytes == 0) return score_vnni(query, rows, n, out);
#endif
  score_run(query, rows, n, out);
}
void score_all(const QueryBytes& query, const Some& rows, std::size_t n, float* out) {
#ifdef MATCHSET_AVX512
  if (has_vnni && rows.vectors.dimensions % kBytes == 0) return score_vnni(query, rows, n, out);
#endif
  score_some(query, rows, n, out);
}

// Asks for the embedding of a feature, if it has one, ahead of its use; throws where one of the two is out of bounds.
void prefetch_row(std::int32_t feature, std::span<const std::int32_t> row_of, const ByteVectors& table) {
  if (feature < 0 || static_cast<std::size_t>(feature) >= row_of.size())
    throw std::invalid_argument("a feature must be below " + std::to_string(row_of.size()) + "; got " +
                                std::to_string(feature));
  const std::int32_t row = row_of[static_cast<std::size_t>(feature)];
  if (row < 0) return;
  const auto at = static_cast<std::size_t>(row);
  if (at >= table.size())
    throw std::invalid_argument("a row must be below " + std::to_string(table.size()) + "; got " + std::to_string(row));
  table.prefetch(at);
}

MATCHSET_CLONES float quantize_one(const float* vector, std::size_t d, std::int8_t* values) {
  constexpr std::uint32_t kInfinity = 0x7F800000;
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  std::uint32_t bits = 0;                // magnitudes are in the order of their bits
  for (std::size_t k = 0; k < d; ++k) bits = std::max(bits, std::bit_cast<std::uint32_t>(vector[k]) & ~(1U << 31));
  const float top = std::bit_cast<float>(bits);
  if (bits >= kInfinity || top < 1e-30F) {
    std::fill_n(values, d, std::int8_t{0});
    return 0;
  }
  const float unit = 127 / top;
  for (std::size_t k = 0; k < d; ++k)
    values[k] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(vector[k] * unit + kMagic));
  return top / 127;
}

}  // namespace

void quantize(std::span<const float> vectors, std::size_t dimensions, std::span<std::int8_t> values,
              std::span<float> scales) {
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = quantize_one(vectors.data() + i * dimensions, dimensions, values.data() + i * dimensions);
}

void encode_texts(const ListsView& texts, std::span<const std::int32_t> row_of, const ByteVectors& table,
                  std::span<float> out, unsigned n_threads) {
  const std::size_t d = table.dimensions, n = texts.size();
  parallel_for((n + kTexts - 1) / kTexts, n_threads, [&](std::size_t item) {
    for (std::size_t i = item * kTexts; i < std::min(n, (item + 1) * kTexts); ++i) {
      float* sum = out.data() + i * d;
      std::fill_n(sum, d, 0.0F);
      const auto features = texts[i];
      for (std::size_t f = 0; f < features.size() + kAhead; ++f) {
        if (f < features.size()) prefetch_row(features[f], row_of, table);
        if (f < kAhead) continue;
        const std::int32_t row = row_of[static_cast<std::size_t>(features[f - kAhead])];
        if (row >= 0)
          add_bytes(table.row(static_cast<std::size_t>(row)), table.scales[static_cast<std::size_t>(row)], d, sum);
      }
      scale_to_one(sum, d);
    }
  });
}

void ByteQuery::set(std::span<const float> vector) {
  set_bytes(quantize_one(vector.data(), vector.size(), bytes_.data()));
}

void ByteQuery::set(const std::int8_t* values, float scale) {
  std::copy_n(values, bytes_.size(), bytes_.begin());
  set_bytes(scale);
}

void ByteQuery::set_bytes(float scale) {
  scale_ = scale;
  std::ranges::copy(bytes_, words_.begin());
  sum_ = std::reduce(words_.begin(), words_.end(), std::int32_t{0});
}

void ByteQuery::score(const ByteVectors& vectors, std::size_t begin, std::size_t end, float* out,
                      std::size_t next) const {
  score_all({bytes_.data(), words_.data(), sum_, scale_}, Run{vectors, begin, next}, end - begin, out);
}

void ByteQuery::score(const ByteVectors& vectors, std::span<const std::uint32_t> rows, float* out) const {
  score_all({bytes_.data(), words_.data(), sum_, scale_}, Some{vectors, rows.data()}, rows.size(), out);
}

}  // namespace matchset
