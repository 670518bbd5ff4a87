#include "cosines.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "avx512.hpp"

namespace matchset {
namespace {

constexpr std::size_t kColumns = 64;  // that stay in the cache for all rows
#ifdef MATCHSET_AVX512
constexpr std::size_t kWidth = 16;  // columns side by side
constexpr std::size_t kFour = 4;    // dimensions that are multiplied and added at once
constexpr std::size_t kTileRows = 4, kTileWidths = kColumns / kWidth;

struct TileRow {
  const std::int8_t* bytes;
  std::int32_t excess;
  float scale;
  float* out;
};

// Some rows, at most four, with some columns, at most 64: the sums stay in registers.
MATCHSET_VNNI void multiply_tile(const TileRow (&rows)[kTileRows], std::size_t n_rows, const std::uint8_t* columns,
                                 std::span<const float> scales, std::size_t d) {
  const std::size_t n_widths = (scales.size() + kWidth - 1) / kWidth;
  __m512i sums[kTileRows][kTileWidths];
  const std::uint8_t* begins[kTileWidths];
  for (std::size_t w = 0; w < kTileWidths; ++w) begins[w] = columns + std::min(w, n_widths - 1) * kWidth * d;
  for (std::size_t r = 0; r < kTileRows; ++r)
    for (std::size_t w = 0; w < kTileWidths; ++w) sums[r][w] = _mm512_set1_epi32(-rows[r].excess);
  for (std::size_t k = 0; k < d; k += kFour) {
    __m512i right[kTileWidths];
    for (std::size_t w = 0; w < kTileWidths; ++w) right[w] = _mm512_loadu_si512(begins[w] + k * kWidth);
    for (std::size_t r = 0; r < kTileRows; ++r) {
      std::int32_t four;
      std::memcpy(&four, rows[r].bytes + k, sizeof(four));
      const __m512i left = _mm512_set1_epi32(four);
      for (std::size_t w = 0; w < kTileWidths; ++w) sums[r][w] = _mm512_dpbusd_epi32(sums[r][w], right[w], left);
    }
  }
  for (std::size_t w = 0; w < n_widths; ++w) {
    const std::size_t begin = w * kWidth, n = std::min(kWidth, scales.size() - begin);
    const auto mask = static_cast<__mmask16>((1U << n) - 1);
    const __m512 of_columns = _mm512_maskz_loadu_ps(mask, scales.data() + begin);
    for (std::size_t r = 0; r < n_rows; ++r)
      _mm512_mask_storeu_ps(
          rows[r].out + begin, mask,
          _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][w]), _mm512_mul_ps(_mm512_set1_ps(rows[r].scale), of_columns)));
  }
}

void multiply_packed(const ByteVectors& rows, const ByteVectors& columns, const CosineColumns& packed, float* out,
                     std::size_t stride) {
  const std::size_t d = rows.dimensions;
  std::vector<std::int32_t> excess(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    excess[i] = 128 * std::accumulate(rows.row(i), rows.row(i) + d, std::int32_t{0});
  for (std::size_t j = 0; j < columns.size(); j += kColumns) {
    const auto scales = columns.scales.subspan(j, std::min(kColumns, columns.size() - j));
    for (std::size_t i = 0; i < rows.size(); i += kTileRows) {
      TileRow tile[kTileRows];
      for (std::size_t r = 0; r < kTileRows; ++r) {
        const std::size_t row = std::min(i + r, rows.size() - 1);
        tile[r] = {rows.row(row), excess[row], rows.scales[row], out + row * stride + j};
      }
      multiply_tile(tile, std::min(kTileRows, rows.size() - i), packed.begin(j), scales, d);
    }
  }
}
#endif

}  // namespace

CosineColumns::CosineColumns(std::size_t max_size, std::size_t dimensions) : dimensions_(dimensions) {
#ifdef MATCHSET_AVX512
  if (has_vnni) bytes_.resize((max_size + kWidth - 1) / kWidth * kWidth * dimensions);
#else
  (void)max_size;
#endif
}

void CosineColumns::set(std::size_t column, const std::int8_t* values) {
#ifdef MATCHSET_AVX512
  if (bytes_.empty()) return;
  std::uint8_t* target = bytes_.data() + column / kWidth * kWidth * dimensions_ + column % kWidth * kFour;
  for (std::size_t k = 0; k < dimensions_; k += kFour, target += kFour * kWidth) {
    std::uint32_t four;
    std::memcpy(&four, values + k, sizeof(four));
    four ^= 0x80808080U;  // 128 more
    std::memcpy(target, &four, sizeof(four));
  }
#else
  (void)column, (void)values;
#endif
}

void find_cosines(const ByteVectors& rows, const ByteVectors& columns, const CosineColumns& packed, float* out,
                  std::size_t stride) {
#ifdef MATCHSET_AVX512
  if (packed.is_kept()) return multiply_packed(rows, columns, packed, out, stride);
#endif
  std::vector<ByteQuery> queries(rows.size(), ByteQuery(rows.dimensions));
  for (std::size_t i = 0; i < rows.size(); ++i) queries[i].set(rows.row(i), rows.scales[i]);
  for (std::size_t j = 0; j < columns.size(); j += kColumns)
    for (std::size_t i = 0; i < rows.size(); ++i)
      queries[i].score(columns, j, std::min(columns.size(), j + kColumns), out + i * stride + j);
}

}  // namespace matchset
