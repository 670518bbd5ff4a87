// The arithmetic of a step of training, vector by vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vectors.hpp"

namespace matchset {

constexpr float kMasked = -1e30F;  // a logit that counts for nothing

// After the listed ids must lie as many further ones, of any row: those rows are asked for early.
constexpr std::size_t kReadAhead = 4;

// Sum of the listed rows of a table, scaled to length one (zero where it has none); returns the scale.
float mean_of_rows(const float* table, std::size_t d, const std::int32_t* ids, std::size_t n, float* out);

// Sum of the listed rows.
void add_rows(const float* rows, std::size_t d, const std::uint32_t* ids, std::size_t n, float* out);

struct SoftmaxRule {
  float inverse_temperature;  // of cosines
  float least;                // a smaller probability is zero in the gradient
  float weight;               // of the row
};

// Turns a row of cosines into the gradient of its loss: weight * (softmax - 1 at the target). Returns the loss.
float softmax(float* row, std::size_t n, std::size_t target, const SoftmaxRule& rule);

// A row that counts, and how much.
struct WeightedRow {
  std::uint32_t id;
  float weight;
};

// Finds the entries of a row that are not zero, in order.
void find_nonzero(const float* row, std::size_t n, std::vector<WeightedRow>& found);

// Sum of weight * row, in order.
void add_weighted(const ByteVectors& rows, std::span<const WeightedRow> some, float* out);

// out = (gradient - vector * (vector . gradient)) * scale: the gradient before division by the length.
void pull_through_length(const float* vector, const float* gradient, float scale, std::size_t d, float* out);

// One step of row-wise Adagrad: rare n-grams keep learning fast.
void step_row(const float* gradient, std::size_t d, float rate, float* row, float& squares);

// 1 at the first of n steps, falling to 0 along a half cosine.
float half_cosine(std::size_t step, std::size_t n);

inline void prefetch_row(const float* row, std::size_t d) {
  for (std::size_t k = 0; k < d; k += 16) __builtin_prefetch(row + k);
}

}  // namespace matchset
