// Sparse matrices as Python passes them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>

#include "csr.hpp"
#include "python_arrays.hpp"

namespace matchset {

using Lists = std::tuple<In<std::int64_t>, In<std::int32_t>>;           // offsets, ids
using Csr = std::tuple<In<std::int64_t>, In<std::int32_t>, In<float>>;  // offsets, columns, values
using CsrOut = std::tuple<Out<std::int64_t>, Out<std::int32_t>, Out<float>>;

inline ListsView to_lists(const In<std::int64_t>& offsets, const In<std::int32_t>& ids) {
  if (offsets.size() == 0) throw std::invalid_argument("row offsets must hold at least one entry; got 0");
  return {to_span(offsets), to_span(ids)};
}

inline CsrView to_csr(const Csr& matrix, std::int64_t n_columns) {
  const auto& [offsets, columns, values] = matrix;
  if (columns.size() != values.size())
    throw std::invalid_argument("a matrix must have as many columns as values; got " + std::to_string(columns.size()) +
                                " and " + std::to_string(values.size()));
  if (n_columns < 0 || n_columns > std::numeric_limits<std::int32_t>::max())
    throw std::invalid_argument("width must be from 0 to 2147483647; got " + std::to_string(n_columns));
  return {to_lists(offsets, columns), to_span(values), static_cast<std::size_t>(n_columns)};
}

}  // namespace matchset
