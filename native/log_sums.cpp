#include "log_sums.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "crew.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kRows = 1 << 16;  // that a thread takes at a time

std::size_t count_chunks(std::size_t n) { return (n + kRows - 1) / kRows; }

// Calls visit(first row, weight) for each run of rows that are the same and of which the first is in a chunk.
template <typename IsSame, typename Visit>
void for_each_run(std::size_t chunk, const RowWeights& weights, IsSame&& is_same, Visit&& visit) {
  const std::size_t n = weights.counts.size(), begin = chunk * kRows, end = std::min(n, begin + kRows);
  std::size_t row = begin;
  while (begin > 0 && row < end && is_same(begin - 1, row)) ++row;
  while (row < end) {
    const std::size_t first = row;
    double sum = 0;
    for (; row < n && is_same(first, row); ++row) sum += weights[row];
    visit(first, sum);
  }
}

}  // namespace

double RowWeights::operator[](std::size_t row) const {
  const double weight = counts[row] * of_event[events[row]];
  if (of_day.empty()) return weight;
  const std::int64_t day = std::int64_t{days[row]} - first_day;
  return weight * of_day[static_cast<std::size_t>(std::clamp<std::int64_t>(day, 0, std::ssize(of_day) - 1))];
}

PairSums sum_pairs(std::span<const std::int32_t> query, std::span<const std::int32_t> product,
                   const RowWeights& weights, double least, unsigned n_threads) {
  std::vector<PairSums> parts(count_chunks(query.size()));
  const auto is_same = [&](std::size_t a, std::size_t b) { return query[a] == query[b] && product[a] == product[b]; };
  parallel_for(parts.size(), n_threads, [&](std::size_t chunk) {
    PairSums& part = parts[chunk];
    for_each_run(chunk, weights, is_same, [&](std::size_t first, double sum) {
      part.n_counted += sum > 0;
      if (sum < least) return;
      part.rows.push_back(static_cast<std::int64_t>(first));
      part.sums.push_back(sum);
    });
  });
  PairSums all;
  std::size_t n_pairs = 0;
  for (const PairSums& part : parts) n_pairs += part.rows.size();
  all.rows.reserve(n_pairs);
  all.sums.reserve(n_pairs);
  for (PairSums& part : parts) {
    all.rows.insert(all.rows.end(), part.rows.begin(), part.rows.end());
    all.sums.insert(all.sums.end(), part.sums.begin(), part.sums.end());
    all.n_counted += part.n_counted;
    part = {};
  }
  return all;
}

Buffer<double> sum_queries(std::span<const std::int32_t> query, std::size_t size, const RowWeights& weights,
                           unsigned n_threads) {
  Buffer<double> sums(size);
  const auto is_same = [&](std::size_t a, std::size_t b) { return query[a] == query[b]; };
  parallel_for(count_chunks(query.size()), n_threads, [&](std::size_t chunk) {
    for_each_run(chunk, weights, is_same, [&](std::size_t first, double sum) {
      const auto own = static_cast<std::size_t>(query[first]);
      if (own >= size) throw std::out_of_range("queries must be within the sums");
      sums[own] = sum;
    });
  });
  return sums;
}

Buffer<double> sum_products(std::span<const std::int32_t> product, std::size_t size, const RowWeights& weights,
                            unsigned n_threads) {
  constexpr std::size_t kSplit = 1 << 13;  // rows that are split at a time, so that a block stays in cache
  constexpr std::size_t kBlock = 32;       // splits whose weights are added up at once
  constexpr std::size_t kParts = 32;       // ranges of products
  struct Entry {
    std::int32_t product;
    double weight;
  };
  Buffer<double> sums(size);
  std::vector<std::array<std::vector<Entry>, kParts>> block(kBlock);
  const std::size_t part_size = size / kParts + 1, n = product.size();
  const auto split = [&](std::size_t begin, std::array<std::vector<Entry>, kParts>& parts) {
    for (auto& part : parts) part.clear();
    for (std::size_t row = begin; row < std::min(n, begin + kSplit); ++row) {
      const auto own = static_cast<std::size_t>(product[row]);
      if (own >= size) throw std::out_of_range("products must be within the sums");
      if (const double weight = weights[row]; weight != 0) parts[own / part_size].push_back({product[row], weight});
    }
  };
  Crew crew(static_cast<unsigned>(std::min<std::size_t>(n_threads, count_chunks(n))));
  crew.run([&](unsigned) {
    for (std::size_t begin = 0; begin < n; begin += kSplit * kBlock) {
      if (!crew.each(kBlock, [&](std::size_t i) { split(begin + i * kSplit, block[i]); })) return;
      const bool is_good = crew.each(kParts, [&](std::size_t part) {
        for (const auto& parts : block)
          for (const Entry& entry : parts[part]) sums[static_cast<std::size_t>(entry.product)] += entry.weight;
      });
      if (!is_good) return;
    }
  });
  return sums;
}

std::optional<std::pair<std::int32_t, std::int32_t>> find_days(std::span<const std::int32_t> days, std::int32_t no_day,
                                                               std::size_t one_in, unsigned n_threads) {
  std::mutex lock;  // around sums and extremes of integers: the order does not matter
  const auto for_each_day = [&](std::size_t chunk, auto&& visit) {
    for (std::size_t i = chunk * kRows; i < std::min(days.size(), (chunk + 1) * kRows); ++i)
      if (days[i] != no_day) visit(std::int64_t{days[i]});
  };
  std::size_t n = 0;
  std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = std::numeric_limits<std::int64_t>::min();
  parallel_for(count_chunks(days.size()), n_threads, [&](std::size_t chunk) {
    std::size_t n_own = 0;
    std::int64_t smallest = std::numeric_limits<std::int64_t>::max(),
                 largest = std::numeric_limits<std::int64_t>::min();
    for_each_day(chunk, [&](std::int64_t day) {
      ++n_own;
      smallest = std::min(smallest, day), largest = std::max(largest, day);
    });
    const std::lock_guard guard(lock);
    n += n_own;
    low = std::min(low, smallest), high = std::max(high, largest);
  });
  if (n == 0) return std::nullopt;
  const std::int64_t first = low;
  // Counts days in up to 2^12 ranges, and goes on with the one that holds the place: once, unless dates are odd.
  for (std::size_t place = n - 1 - n / one_in; low < high;) {
    const auto width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(high - low)));
    const int shift = std::max(0, width - 12);
    std::vector<std::size_t> counts(1 << 12);
    parallel_for(count_chunks(days.size()), n_threads, [&](std::size_t chunk) {
      std::vector<std::uint32_t> own(counts.size());
      for_each_day(chunk, [&](std::int64_t day) {
        if (day >= low && day <= high) ++own[static_cast<std::size_t>(day - low) >> shift];
      });
      const std::lock_guard guard(lock);
      for (std::size_t i = 0; i < own.size(); ++i) counts[i] += own[i];
    });
    std::int64_t range = 0;
    for (; place >= counts[static_cast<std::size_t>(range)]; ++range) place -= counts[static_cast<std::size_t>(range)];
    low += range << shift;
    high = std::min(high, low + (std::int64_t{1} << shift) - 1);
  }
  return std::pair(static_cast<std::int32_t>(first), static_cast<std::int32_t>(low));
}

}  // namespace matchset
