// Products of dense matrices: the same bytes on every machine.
#pragma once

#include <cstddef>

namespace matchset {

constexpr std::size_t kTileRows = 4;     // rows of the result are computed in fours
constexpr std::size_t kPanelWidth = 64;  // columns of the right side that lie together

// A left side whose element (i, k) is data[i * row + k * inner].
struct LeftSide {
  const float* data;
  std::size_t row, inner;
};

// A right side of n_inner rows, cut into panels of kPanelWidth columns (the last may be narrower, by a
// multiple of 16): a panel's rows lie one after another.
struct Panels {
  float* data;
  std::size_t n_inner, n_columns;

  static std::size_t width(std::size_t n_columns, std::size_t panel) {
    const std::size_t left = n_columns - panel * kPanelWidth;
    return left < kPanelWidth ? left : kPanelWidth;
  }
  std::size_t n_panels() const { return (n_columns + kPanelWidth - 1) / kPanelWidth; }
  float* begin(std::size_t panel) const { return data + panel * kPanelWidth * n_inner; }
  float* at(std::size_t k, std::size_t column) const {
    const std::size_t panel = column / kPanelWidth;
    return begin(panel) + k * width(n_columns, panel) + column % kPanelWidth;
  }
};

// out[i * stride + j] = sum over k, in order, of left(i, k) * right(k, j), for n_rows rows, a multiple of
// kTileRows. Each product is rounded before it is added, whatever the machine: an element's bytes
// depend on nothing but its row and its column.
void multiply(const LeftSide& left, std::size_t n_rows, const Panels& right, float* out, std::size_t stride);

}  // namespace matchset
