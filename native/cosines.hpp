// Cosines of many vectors of bytes with many others: the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vectors.hpp"

namespace matchset {

// Columns in the form that the widest instructions want: sixteen of them side by side, four dimensions at a time.
// Where a machine has no such instructions, nothing is kept.
class CosineColumns {
 public:
  CosineColumns(std::size_t max_size, std::size_t dimensions);
  // Takes the vector of a column; columns may be set in any order, by several threads.
  void set(std::size_t column, const std::int8_t* values);
  const std::uint8_t* begin(std::size_t column) const { return bytes_.data() + column * dimensions_; }
  bool is_kept() const { return !bytes_.empty(); }

 private:
  std::size_t dimensions_;
  std::vector<std::uint8_t> bytes_;  // 128 more than the values
};

// out[i * stride + j] = cosine of rows[i] and columns[j], for all columns; sums of integers, so exact in any order.
void find_cosines(const ByteVectors& rows, const ByteVectors& columns, const CosineColumns& packed, float* out,
                  std::size_t stride);

}  // namespace matchset
