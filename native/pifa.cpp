#include "pifa.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>
#include <vector>

#include "threads.hpp"

namespace matchset {
namespace {

using Entry = std::pair<std::int32_t, float>;  // feature, value

// A sparse sum: one dense array per thread, as wide as X, of which only the used entries are reset.
class Sum {
 public:
  explicit Sum(std::size_t n_features) : slots_(n_features) {}

  void add(const SparseRow& row, float weight) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      const auto feature = static_cast<std::size_t>(row.index[k]);
      if (!slots_[feature].is_used) used_.push_back(row.index[k]);
      slots_[feature].is_used = true;
      slots_[feature].value += weight * row.value[k];
    }
  }

  // Moves the nonzero entries of the sum out, and starts the next sum.
  void take(std::vector<Entry>& entries) {
    for (const std::int32_t feature : used_) {
      Slot& slot = slots_[static_cast<std::size_t>(feature)];
      if (slot.value != 0) entries.emplace_back(feature, slot.value);
      slot = {};
    }
    used_.clear();
  }

 private:
  struct Slot {
    float value = 0;
    bool is_used = false;  // the value alone does not tell: terms may cancel
  };
  std::vector<Slot> slots_;
  std::vector<std::int32_t> used_;
};

void keep_largest(std::vector<Entry>& entries, std::size_t max_entries) {
  if (entries.size() > max_entries) {
    std::ranges::nth_element(entries, entries.begin() + static_cast<std::ptrdiff_t>(max_entries), {},
                             [](const Entry& entry) { return std::pair(-std::abs(entry.second), entry.first); });
    entries.resize(max_entries);
  }
  std::ranges::sort(entries);
}

void scale_to_one(std::vector<Entry>& entries) {
  double squares = 0;
  for (const Entry& entry : entries) squares += double{entry.second} * entry.second;
  const auto scale = static_cast<float>(squares > 0 ? 1 / std::sqrt(squares) : 0);
  for (Entry& entry : entries) entry.second *= scale;
}

void append(const std::vector<Entry>& entries, OwnedCsr& rows) {
  for (const auto& [feature, value] : entries) {
    rows.columns.push_back(feature);
    rows.values.push_back(value);
  }
  rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
}

// All rows, one chunk after another; these are freed.
OwnedCsr join(std::vector<OwnedCsr>& chunks, unsigned n_threads) {
  OwnedCsr out{{0}, {}, {}};
  std::vector<std::ptrdiff_t> begins;
  for (const OwnedCsr& own : chunks) {
    begins.push_back(static_cast<std::ptrdiff_t>(out.offsets.back()));
    for (const std::int64_t end : own.offsets) out.offsets.push_back(begins.back() + end);
  }
  out.columns.resize(static_cast<std::size_t>(out.offsets.back()));
  out.values.resize(out.columns.size());
  parallel_for(chunks.size(), n_threads, [&](std::size_t i) {
    std::ranges::copy(chunks[i].columns, out.columns.begin() + begins[i]);
    std::ranges::copy(chunks[i].values, out.values.begin() + begins[i]);
    chunks[i] = {};
  });
  return out;
}

}  // namespace

OwnedCsr sum_instances(const CsrView& X, const CsrView& instances, std::size_t max_entries, unsigned n_threads) {
  constexpr std::size_t kChunk = 1024;
  const std::size_t n_labels = instances.n_rows(), n_chunks = (n_labels + kChunk - 1) / kChunk;
  std::vector<OwnedCsr> chunks(n_chunks);
  std::atomic<std::size_t> next{0};
  parallel_for(std::min<std::size_t>(std::max(1U, n_threads), n_chunks), n_threads, [&](std::size_t) {
    Sum sum(X.n_columns);
    std::vector<Entry> entries;
    for (std::size_t chunk = next++; chunk < n_chunks; chunk = next++) {
      for (std::size_t label = chunk * kChunk; label < std::min(n_labels, (chunk + 1) * kChunk); ++label) {
        const SparseRow row = instances[label];
        for (std::size_t k = 0; k < row.size(); ++k) sum.add(X[static_cast<std::size_t>(row.index[k])], row.value[k]);
        entries.clear();
        sum.take(entries);
        keep_largest(entries, max_entries);
        scale_to_one(entries);
        append(entries, chunks[chunk]);
      }
    }
  });
  return join(chunks, n_threads);
}

}  // namespace matchset
