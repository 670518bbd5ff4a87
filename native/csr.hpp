// Sparse rows borrowed from Python: checked when read, so that no array can make a kernel read out of bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "prefetch.hpp"

namespace matchset {

struct SparseRow {
  std::span<const std::int32_t> index;
  std::span<const float> value;
  std::size_t size() const { return index.size(); }
};

// Lists of ids, one after another: a CSR matrix without its values.
struct ListsView {
  std::span<const std::int64_t> offsets;  // n + 1
  std::span<const std::int32_t> ids;

  std::size_t size() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  std::size_t begin_of(std::size_t i) const { return checked(i).first; }
  std::span<const std::int32_t> operator[](std::size_t i) const {
    const auto [begin, end] = checked(i);
    return ids.subspan(begin, end - begin);
  }
  // Asks for the beginning and the end of a list, whose offset should be at hand, ahead of its use.
  void prefetch(std::size_t i) const {
    const auto begin = static_cast<std::size_t>(offsets[i]), end = static_cast<std::size_t>(offsets[i + 1]);
    if (begin >= end || end > ids.size()) return;
    prefetch_far(ids.data() + begin);
    prefetch_far(ids.data() + end - 1);
  }

 private:
  std::pair<std::size_t, std::size_t> checked(std::size_t i) const {
    if (i >= size()) refuse(i);
    const std::int64_t begin = offsets[i], end = offsets[i + 1];
    if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > ids.size()) refuse(i);
    return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
  }
  // Apart from the checks, so that these are inlined.
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::size_t i) const {
    if (i >= size())
      throw std::out_of_range("row must be below " + std::to_string(size()) + "; got " + std::to_string(i));
    throw std::invalid_argument("row offsets must ascend and end inside the matrix; got " + std::to_string(offsets[i]) +
                                " and " + std::to_string(offsets[i + 1]) + " at row " + std::to_string(i));
  }
};

struct CsrView {
  ListsView lists;
  std::span<const float> values;  // as many as lists.ids
  std::size_t n_columns;

  std::size_t n_rows() const { return lists.size(); }
  // Throws unless the row lies inside the arrays and its columns inside the matrix, in ascending order.
  SparseRow operator[](std::size_t i) const {
    const std::span<const std::int32_t> index = lists[i];
    std::int64_t last = -1;
    for (const std::int32_t column : index) {
      if (column <= last || static_cast<std::size_t>(column) >= n_columns)
        throw std::invalid_argument("columns must ascend and stay below " + std::to_string(n_columns) + "; got " +
                                    std::to_string(column) + " at row " + std::to_string(i));
      last = column;
    }
    return {index, values.subspan(lists.begin_of(i), index.size())};
  }
  // A row that was read before, so that it needs no check.
  SparseRow again(std::size_t i) const {
    const auto begin = static_cast<std::size_t>(lists.offsets[i]);
    const std::size_t size = static_cast<std::size_t>(lists.offsets[i + 1]) - begin;
    return {lists.ids.subspan(begin, size), values.subspan(begin, size)};
  }
};

}  // namespace matchset
