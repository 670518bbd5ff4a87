// Rows of a log: which queries and products are left in some of them?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "buffer.hpp"

namespace matchset {

struct LogColumns {
  std::span<const std::int32_t> query, product;
  std::span<const std::uint8_t> event;
  std::span<const std::int32_t> day;
  std::span<const double> count;
};

struct SelectedRows {
  Buffer<std::int64_t> queries, products;  // that occur, ascending
  RawBuffer<std::int32_t> query, product;  // of each row, numbered anew
  RawBuffer<std::uint8_t> event;
  RawBuffer<std::int32_t> day;
  RawBuffer<double> count;
};

// The rows that are marked; queries and products must be below these numbers.
SelectedRows select_rows(const LogColumns& log, std::span<const std::uint8_t> is_selected, std::size_t n_queries,
                         std::size_t n_products, unsigned n_threads);

}  // namespace matchset
