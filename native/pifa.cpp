#include "pifa.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

}  // namespace

OwnedCsr sum_instances(const CsrView& X, const CsrView& instances, std::size_t max_entries, unsigned n_threads) {
  constexpr std::size_t kChunk = 1024;
  const std::size_t n_labels = instances.n_rows(), n_chunks = (n_labels + kChunk - 1) / kChunk;
  std::vector<OwnedCsr> chunks(n_chunks);
  parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
    Sum sum(X.n_columns);
    std::vector<Entry> entries;
    OwnedCsr& own = chunks[chunk];
    for (std::size_t label = chunk * kChunk; label < std::min(n_labels, (chunk + 1) * kChunk); ++label) {
      const SparseRow row = instances[label];
      for (std::size_t k = 0; k < row.size(); ++k) sum.add(X[static_cast<std::size_t>(row.index[k])], row.value[k]);
      entries.clear();
      sum.take(entries);
      keep_largest(entries, max_entries);
      scale_to_one(entries);
      for (const auto& [feature, value] : entries) {
        own.columns.push_back(feature);
        own.values.push_back(value);
      }
      own.offsets.push_back(static_cast<std::int64_t>(own.columns.size()));
    }
  });
  OwnedCsr out{{0}, {}, {}};
  out.offsets.reserve(n_labels + 1);
  std::size_t n_entries = 0;
  for (const OwnedCsr& own : chunks) n_entries += own.columns.size();
  out.columns.reserve(n_entries);
  out.values.reserve(n_entries);
  for (OwnedCsr& own : chunks) {
    const auto before = static_cast<std::int64_t>(out.columns.size());
    for (const std::int64_t end : own.offsets) out.offsets.push_back(before + end);
    out.columns.insert(out.columns.end(), own.columns.begin(), own.columns.end());
    out.values.insert(out.values.end(), own.values.begin(), own.values.end());
    own = {};
  }
  return out;
}

}  // namespace matchset
