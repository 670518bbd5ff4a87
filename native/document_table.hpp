// Document table: what is known of the few documents that a query touches?
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace matchset {

// A value per document, in memory that grows with the documents touched, not with all there are.
//
// An open-addressing table of indices into an array of entries. Reused from query to query: clearing costs
// as much as was added.
template <typename Value>
class DocumentTable {
 public:
  struct Entry {
    std::uint32_t document;
    Value value;
  };

  void clear() {
    if (16 * entries_.size() > slots_.size()) {
      std::fill(slots_.begin(), slots_.end(), 0U);
      entries_.clear();
      return;
    }
    // Last in, first out: taken away in another order, an entry would hide those that lie behind it.
    while (!entries_.empty()) {
      slots_[find(entries_.back().document)] = 0;
      entries_.pop_back();
    }
  }

  // The value of a document, which is the default where it is new.
  Value& operator[](std::uint32_t document) {
    std::size_t slot = find(document);
    if (slots_[slot] == 0) {
      if (2 * (entries_.size() + 1) > slots_.size()) {
        grow();
        slot = find(document);
      }
      entries_.push_back({document, Value{}});
      slots_[slot] = static_cast<std::uint32_t>(entries_.size());
    }
    return entries_[slots_[slot] - 1].value;
  }

  // The value of a document, or nullptr.
  const Value* get(std::uint32_t document) const {
    const std::uint32_t index = slots_[find(document)];
    return index == 0 ? nullptr : &entries_[index - 1].value;
  }

  // In the order in which they were first touched.
  std::span<Entry> entries() { return entries_; }
  std::span<const Entry> entries() const { return entries_; }

 private:
  static constexpr std::size_t kFewest = 1024;

  // The slot of a document, or the free one where it belongs. At most half of the slots are taken.
  std::size_t find(std::uint32_t document) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = (document * 0x9E3779B1U) >> (32 - std::countr_zero(slots_.size()));
    while (slots_[slot] != 0 && entries_[slots_[slot] - 1].document != document) slot = (slot + 1) & mask;
    return slot;
  }

  void grow() {
    slots_.assign(2 * slots_.size(), 0);
    for (std::size_t i = 0; i < entries_.size(); ++i)
      slots_[find(entries_[i].document)] = static_cast<std::uint32_t>(i + 1);
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_ = std::vector<std::uint32_t>(kFewest);  // one more than an index; 0: free
};

using Accumulator = DocumentTable<float>;

struct ScoredDocument {
  std::uint32_t document;
  float score;

  // Better first; equal scores go by document. Scores are never NaN: a strict order.
  friend bool operator<(const ScoredDocument& a, const ScoredDocument& b) {
    return a.score != b.score ? a.score > b.score : a.document < b.document;
  }
};

}  // namespace matchset
