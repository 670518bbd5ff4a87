#include "tower_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "avx512.hpp"
#include "dense.hpp"
#include "target_clones.hpp"

namespace matchset {
namespace {

constexpr float kEpsilon = 1e-8F;  // of Adagrad

// Sum of V vectors' worth of the listed rows, which stays in registers.
template <std::size_t V, typename Id>
MATCHSET_INLINE void add_slab(const float* rows, std::size_t d, const Id* ids, std::size_t n, float* out) {
  Wide sums[V] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const float* row = rows + static_cast<std::size_t>(ids[i]) * d;
    const float* later = rows + static_cast<std::size_t>(ids[i + kReadAhead]) * d;
    for (std::size_t v = 0; v < V; ++v) __builtin_prefetch(later + v * kLanes);
    for (std::size_t v = 0; v < V; ++v) sums[v] += load(row + v * kLanes);
  }
  for (std::size_t v = 0; v < V; ++v) store(out + v * kLanes, sums[v]);
}

template <typename Id>
MATCHSET_INLINE void add_all(const float* rows, std::size_t d, const Id* ids, std::size_t n, float* out) {
  std::size_t k = 0;
  for (; k + 8 * kLanes <= d; k += 8 * kLanes) add_slab<8>(rows + k, d, ids, n, out + k);
  for (; k + 4 * kLanes <= d; k += 4 * kLanes) add_slab<4>(rows + k, d, ids, n, out + k);
  for (; k < d; k += kLanes) add_slab<1>(rows + k, d, ids, n, out + k);
}

MATCHSET_CLONES void add_scaled(const std::int8_t* row, float weight, std::size_t d, float* sum) {
  for (std::size_t k = 0; k < d; ++k) sum[k] += static_cast<float>(row[k]) * weight;
}

#ifdef MATCHSET_AVX512
MATCHSET_AVX512 void find_nonzero_512(const float* row, std::size_t n, std::vector<WeightedRow>& found) {
  for (std::size_t k = 0; k < n; k += kLanes)
    for (unsigned left = _mm512_cmp_ps_mask(_mm512_loadu_ps(row + k), _mm512_setzero_ps(), _CMP_NEQ_UQ); left != 0;
         left &= left - 1) {
      const std::size_t i = k + static_cast<std::size_t>(std::countr_zero(left));
      found.push_back({static_cast<std::uint32_t>(i), row[i]});
    }
}

// Sum of V vectors' worth of weighted rows, which stays in registers.
template <std::size_t V>
MATCHSET_AVX512 void add_weighted_slab(const ByteVectors& rows, std::size_t begin, std::span<const WeightedRow> some,
                                       float* out) {
  __m512 sums[V] = {};
  for (const WeightedRow& each : some) {
    const std::int8_t* row = rows.row(each.id) + begin;
    const __m512 weight = _mm512_set1_ps(each.weight * rows.scales[each.id]);
    for (std::size_t v = 0; v < V; ++v) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + v * kLanes));
      sums[v] = _mm512_add_ps(sums[v], _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), weight));
    }
  }
  for (std::size_t v = 0; v < V; ++v) _mm512_storeu_ps(out + begin + v * kLanes, sums[v]);
}

MATCHSET_AVX512 void add_weighted_512(const ByteVectors& rows, std::span<const WeightedRow> some, float* out) {
  std::size_t k = 0;
  for (; k + 16 * kLanes <= rows.dimensions; k += 16 * kLanes) add_weighted_slab<16>(rows, k, some, out);
  for (; k + 4 * kLanes <= rows.dimensions; k += 4 * kLanes) add_weighted_slab<4>(rows, k, some, out);
  for (; k < rows.dimensions; k += kLanes) add_weighted_slab<1>(rows, k, some, out);
}
#endif

// ln x for a positive, normal x: m * 2^e with ln m = 2 artanh((m - 1) / (m + 1)) as a series.
float log_positive(float given) {
  int exponent = 0;
  double m = std::frexp(double{given}, &exponent);
  if (m < std::numbers::sqrt2 / 2) m *= 2, --exponent;
  const double z = (m - 1) / (m + 1), square = z * z;
  double sum = 0;
  for (int k = 15; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return static_cast<float>(2 * z * sum + exponent * std::numbers::ln2);
}

}  // namespace

MATCHSET_CLONES float mean_of_rows(const float* table, std::size_t d, const std::int32_t* ids, std::size_t n,
                                   float* out) {
  add_all(table, d, ids, n, out);
  const float length = std::sqrt(dot(out, out, d));
  const float scale = length > 0 ? 1 / length : 0.0F;
  for (std::size_t k = 0; k < d; k += kLanes) store(out + k, load(out + k) * scale);
  return scale;
}

MATCHSET_CLONES void add_rows(const float* rows, std::size_t d, const std::uint32_t* ids, std::size_t n, float* out) {
  add_all(rows, d, ids, n, out);
}

MATCHSET_CLONES float softmax(float* row, std::size_t n, std::size_t target, const SoftmaxRule& rule) {
  Wide highest = fill(kMasked);
  for (std::size_t k = 0; k < n; k += kLanes) highest = larger<kLanes>(highest, load(row + k));
  float lanes[kLanes];
  store(lanes, highest);
  const float top = *std::max_element(lanes, lanes + kLanes);
  const float own = (row[target] - top) * rule.inverse_temperature;
  Wide sums{};
  for (std::size_t k = 0; k < n; k += kLanes) {
    const Wide e = exp_negative((load(row + k) - top) * rule.inverse_temperature);
    store(row + k, e);
    sums += e;
  }
  const float sum = add_lanes<kLanes>(sums), scale = 1 / sum;
  for (std::size_t k = 0; k < n; k += kLanes) {
    const Wide p = load(row + k) * scale;
    store(row + k, select<kLanes>(is_negative<kLanes>(p - rule.least), Wide{}, p) * rule.weight);
  }
  row[target] -= rule.weight;
  return log_positive(sum) - own;
}

void find_nonzero(const float* row, std::size_t n, std::vector<WeightedRow>& found) {
  found.clear();
#ifdef MATCHSET_AVX512
  if (has_avx512) return find_nonzero_512(row, n, found);
#endif
  for (std::size_t k = 0; k < n; k += kLanes) {
    if (!any_nonzero<kLanes>(load(row + k))) continue;
    for (std::size_t i = k; i < k + kLanes; ++i)
      if (row[i] != 0) found.push_back({static_cast<std::uint32_t>(i), row[i]});
  }
}

void add_weighted(const ByteVectors& rows, std::span<const WeightedRow> some, float* out) {
#ifdef MATCHSET_AVX512
  if (has_avx512) return add_weighted_512(rows, some, out);
#endif
  std::fill_n(out, rows.dimensions, 0.0F);
  for (const WeightedRow& each : some)
    add_scaled(rows.row(each.id), each.weight * rows.scales[each.id], rows.dimensions, out);
}

MATCHSET_CLONES void pull_through_length(const float* vector, const float* gradient, float scale, std::size_t d,
                                         float* out) {
  const float along = dot(vector, gradient, d);
  for (std::size_t k = 0; k < d; k += kLanes) store(out + k, (load(gradient + k) - load(vector + k) * along) * scale);
}

MATCHSET_CLONES void step_row(const float* gradient, std::size_t d, float rate, float* row, float& squares) {
  squares += dot(gradient, gradient, d) / static_cast<float>(d);
  const float pace = rate / (std::sqrt(squares) + kEpsilon);
  for (std::size_t k = 0; k < d; k += kLanes) store(row + k, load(row + k) - load(gradient + k) * pace);
}

float half_cosine(std::size_t step, std::size_t n) {
  // cos^2 of a quarter turn at most, as a series: the library's cosine may differ between machines.
  const double x = std::numbers::pi / 2 * static_cast<double>(step) / static_cast<double>(std::max<std::size_t>(1, n));
  double term = 1, cosine = 1;
  for (int k = 1; k <= 10; ++k) {
    term *= -x * x / ((2.0 * k - 1) * (2.0 * k));
    cosine += term;
  }
  return static_cast<float>(cosine * cosine);
}

}  // namespace matchset
