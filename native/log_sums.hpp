// Sums of a log: how much do the rows of a pair, a query or a product weigh?
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "buffer.hpp"

namespace matchset {

// What rows weigh: their count times the weight of their event and, where `days` are given, of their day.
struct RowWeights {
  std::span<const std::uint8_t> events;
  std::span<const double> counts;
  std::array<double, 256> of_event{};
  std::span<const std::int32_t> days{};
  std::span<const double> of_day{};  // from first_day on; earlier and later days weigh as the nearest one
  std::int32_t first_day = 0;

  double operator[](std::size_t row) const;
};

// Pairs that weigh at least so much, of rows that are sorted by query and product.
struct PairSums {
  Buffer<std::int64_t> rows;  // first row of each pair
  Buffer<double> sums;
  std::int64_t n_counted = 0;  // pairs that weigh anything
};
PairSums sum_pairs(std::span<const std::int32_t> query, std::span<const std::int32_t> product,
                   const RowWeights& weights, double least, unsigned n_threads);

// What the rows of each query weigh, (size,); they are sorted by query.
Buffer<double> sum_queries(std::span<const std::int32_t> query, std::size_t size, const RowWeights& weights,
                           unsigned n_threads);

// What the rows of each product weigh, added up in their order, (size,).
Buffer<double> sum_products(std::span<const std::int32_t> product, std::size_t size, const RowWeights& weights,
                            unsigned n_threads);

// The first day, and the last one but for one row in `one_in`; nothing where every day is `no_day`.
std::optional<std::pair<std::int32_t, std::int32_t>> find_days(std::span<const std::int32_t> days, std::int32_t no_day,
                                                               std::size_t one_in, unsigned n_threads);

}  // namespace matchset
