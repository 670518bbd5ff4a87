#include "log_select.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kRows = 1 << 16;  // that a thread takes at a time

// Numbers the codes that occur anew, and lists them.
Buffer<std::int64_t> compact(RawBuffer<std::int32_t>& codes, std::size_t size, unsigned n_threads) {
  const auto for_each_code = [&](auto&& visit) {
    parallel_for((codes.size() + kRows - 1) / kRows, n_threads, [&](std::size_t chunk) {
      for (std::size_t i = chunk * kRows; i < std::min(codes.size(), (chunk + 1) * kRows); ++i) visit(codes[i]);
    });
  };
  Buffer<std::int32_t> number(size, -1);
  for_each_code([&](std::int32_t code) {
    if (static_cast<std::size_t>(code) >= size) throw std::out_of_range("codes of a log must be within its texts");
    const std::atomic_ref mark(number[static_cast<std::size_t>(code)]);
    if (mark.load(std::memory_order_relaxed) < 0) mark.store(0, std::memory_order_relaxed);
  });
  Buffer<std::int64_t> used;
  for (std::size_t code = 0; code < size; ++code) {
    if (number[code] < 0) continue;
    number[code] = static_cast<std::int32_t>(used.size());
    used.push_back(static_cast<std::int64_t>(code));
  }
  for_each_code([&](std::int32_t& code) { code = number[static_cast<std::size_t>(code)]; });
  return used;
}

}  // namespace

SelectedRows select_rows(const LogColumns& log, std::span<const std::uint8_t> is_selected, std::size_t n_queries,
                         std::size_t n_products, unsigned n_threads) {
  const std::size_t n = is_selected.size();
  std::vector<std::size_t> begins((n + kRows - 1) / kRows + 1);  // of the selected rows of each chunk
  const auto for_each_row = [&](auto&& visit) {
    parallel_for(begins.size() - 1, n_threads, [&](std::size_t chunk) {
      std::size_t at = begins[chunk];
      for (std::size_t row = chunk * kRows; row < std::min(n, (chunk + 1) * kRows); ++row)
        if (is_selected[row] != 0) visit(chunk, row, at++);
    });
  };
  std::vector<std::size_t> sizes(begins.size());
  for_each_row([&](std::size_t chunk, std::size_t, std::size_t) { ++sizes[chunk]; });
  for (std::size_t chunk = 0; chunk + 1 < begins.size(); ++chunk) begins[chunk + 1] = begins[chunk] + sizes[chunk];
  SelectedRows rows;
  rows.query.resize(begins.back());
  rows.product.resize(begins.back());
  rows.event.resize(begins.back());
  rows.day.resize(begins.back());
  rows.count.resize(begins.back());
  for_each_row([&](std::size_t, std::size_t row, std::size_t at) {
    rows.query[at] = log.query[row];
    rows.product[at] = log.product[row];
    rows.event[at] = log.event[row];
    rows.day[at] = log.day[row];
    rows.count[at] = log.count[row];
  });
  rows.queries = compact(rows.query, n_queries, n_threads);
  rows.products = compact(rows.product, n_products, n_threads);
  return rows;
}

}  // namespace matchset
