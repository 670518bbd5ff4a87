#include "matmul.hpp"

#include <cstdlib>

#include "avx512.hpp"
#include "dense.hpp"

namespace matchset {
namespace {

// Four rows times V vectors of N columns: the sums stay in registers over all of n_inner.
template <std::size_t N, std::size_t V>
MATCHSET_INLINE void multiply_tile(const LeftSide& left, const float* right, std::size_t width, std::size_t n_inner,
                                   float* out, std::size_t stride) {
  Floats<N> sums[kTileRows][V] = {};
  const float* rows[kTileRows];
  for (std::size_t i = 0; i < kTileRows; ++i) rows[i] = left.data + i * left.row;
  for (std::size_t k = 0; k < n_inner; ++k) {
    Floats<N> b[V];
    for (std::size_t v = 0; v < V; ++v) b[v] = load_lanes<N>(right + k * width + v * N);
    for (std::size_t i = 0; i < kTileRows; ++i) {
      const float a = rows[i][k * left.inner];
      for (std::size_t v = 0; v < V; ++v) sums[i][v] += a * b[v];
    }
  }
  for (std::size_t i = 0; i < kTileRows; ++i)
    for (std::size_t v = 0; v < V; ++v) store_lanes<N>(out + i * stride + v * N, sums[i][v]);
}

// V vectors of N columns fill the registers of the target; what is left of a panel goes sixteen columns at a time.
template <std::size_t N, std::size_t V>
MATCHSET_INLINE void multiply_all(const LeftSide& left, std::size_t n_rows, const Panels& right, float* out,
                                  std::size_t stride) {
  for (std::size_t panel = 0; panel < right.n_panels(); ++panel) {
    const std::size_t width = Panels::width(right.n_columns, panel);
    for (std::size_t row = 0; row < n_rows; row += kTileRows) {
      const LeftSide tile{left.data + row * left.row, left.row, left.inner};
      float* target = out + row * stride + panel * kPanelWidth;
      std::size_t j = 0;
      for (; j + N * V <= width; j += N * V)
        multiply_tile<N, V>(tile, right.begin(panel) + j, width, right.n_inner, target + j, stride);
      for (; j < width; j += N)
        multiply_tile<N, 1>(tile, right.begin(panel) + j, width, right.n_inner, target + j, stride);
    }
  }
}

#if defined(__x86_64__)
const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && std::getenv("MATCHSET_PLAIN") == nullptr;

MATCHSET_AVX512 void multiply_512(const LeftSide& left, std::size_t n_rows, const Panels& right, float* out,
                                  std::size_t stride) {
  multiply_all<16, 4>(left, n_rows, right, out, stride);
}
__attribute__((target("avx2"))) void multiply_256(const LeftSide& left, std::size_t n_rows, const Panels& right,
                                                  float* out, std::size_t stride) {
  multiply_all<8, 2>(left, n_rows, right, out, stride);
}
#endif

}  // namespace

void multiply(const LeftSide& left, std::size_t n_rows, const Panels& right, float* out, std::size_t stride) {
#if defined(__x86_64__)
  if (has_avx512) return multiply_512(left, n_rows, right, out, stride);
  if (has_avx2) return multiply_256(left, n_rows, right, out, stride);
#endif
  multiply_all<4, 2>(left, n_rows, right, out, stride);
}

}  // namespace matchset
