#include "vectors.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

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

// Sums of integers: exact in any order, so the compiler may take any instruction for them.
MATCHSET_CLONES void score_bytes(const std::int16_t* query, float scale, const ByteVectors& vectors, std::size_t begin,
                                 std::size_t end, float* out) {
  const std::size_t d = vectors.dimensions;
  for (std::size_t i = begin; i < end; ++i) {
    const std::int8_t* row = vectors.values.data() + i * d;
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < d; ++k) sum += std::int32_t{query[k]} * std::int32_t{std::int16_t{row[k]}};
    out[i - begin] = static_cast<float>(sum) * (scale * vectors.scales[i]);
  }
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

float quantize_one(const float* vector, std::size_t d, std::int8_t* values) {
  float top = 0;
  for (std::size_t k = 0; k < d; ++k) top = std::max(top, std::fabs(vector[k]));
  if (!(top >= 1e-30F) || !std::isfinite(top)) {
    std::fill_n(values, d, std::int8_t{0});
    return 0;
  }
  const float unit = 127 / top;
  for (std::size_t k = 0; k < d; ++k)
    values[k] = static_cast<std::int8_t>(std::lrint(std::clamp(vector[k] * unit, -127.0F, 127.0F)));
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
  scale_ = quantize_one(vector.data(), vector.size(), bytes_.data());
  std::ranges::copy(bytes_, words_.begin());
}

void ByteQuery::set(const std::int8_t* values, float scale) {
  scale_ = scale;
  std::copy_n(values, words_.size(), words_.begin());
}

void ByteQuery::score(const ByteVectors& vectors, std::size_t begin, std::size_t end, float* out) const {
  score_bytes(words_.data(), scale_, vectors, begin, end, out);
}

}  // namespace matchset
