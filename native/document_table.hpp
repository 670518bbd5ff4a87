// Document table: what is known of the few documents that a query touches?
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
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

// Sums by document: the table of those that are added to thousands of times for a query.
//
// Key and sum lie together in a slot, and adding does not branch on whether a document is new, which nobody could
// predict.
class Accumulator {
 public:
  // Room for so many further documents; `add` takes no more than that.
  void reserve(std::size_t n) {
    used_.resize(std::max(used_.size(), n_used_ + n + 1));
    if (4 * (n_used_ + n) > slots_.size()) grow(std::bit_ceil(4 * (n_used_ + n)));
  }

  // Adds amount_of(i) to the i-th of some documents.
  template <typename Amount>
  void add(std::span<const std::int32_t> documents, Amount&& amount_of) {
    Slot* const slots = slots_.data();  // these stay in registers, whatever is written meanwhile
    std::uint32_t* const used = used_.data();
    const std::size_t mask = slots_.size() - 1;
    const int shift = 32 - std::countr_zero(slots_.size());
    std::size_t n_used = n_used_;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      const auto document = static_cast<std::uint32_t>(documents[i]);
      std::size_t index = (document * kSpread) >> shift;
      while (slots[index].document != document && slots[index].document != kFree) index = (index + 1) & mask;
      used[n_used] = static_cast<std::uint32_t>(index);
      n_used += slots[index].document == kFree ? 1 : 0;
      slots[index].document = document;
      slots[index].sum += amount_of(i);
    }
    n_used_ = n_used;
  }
  void add(std::int32_t document, float amount) {
    add({&document, 1}, [&](std::size_t) { return amount; });
  }

  // The sum of a document; 0 where nothing was added.
  float operator[](std::uint32_t document) const {
    const Slot& slot = slots_[find(document)];
    return slot.document == document ? slot.sum : 0.0F;
  }

  std::size_t size() const { return n_used_; }

  // Calls visit(document, sum) in the order in which documents were first added to.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < n_used_; ++i) visit(slots_[used_[i]].document, slots_[used_[i]].sum);
  }

  void clear() {
    for (std::size_t i = 0; i < n_used_; ++i) slots_[used_[i]] = {};
    n_used_ = 0;
  }

 private:
  static constexpr std::uint32_t kFree = ~0U, kSpread = 0x9E3779B1U;
  static constexpr std::size_t kFewest = 1024;
  struct Slot {
    std::uint32_t document = kFree;
    float sum = 0;
  };

  // The slot of a document, or the free one where it belongs.
  std::size_t find(std::uint32_t document) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = (document * kSpread) >> (32 - std::countr_zero(slots_.size()));
    while (slots_[slot].document != document && slots_[slot].document != kFree) slot = (slot + 1) & mask;
    return slot;
  }

  void grow(std::size_t n_slots) {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(n_slots));
    for (std::size_t i = 0; i < n_used_; ++i) {
      const Slot& slot = old[used_[i]];
      const std::size_t index = find(slot.document);
      slots_[index] = slot;
      used_[i] = static_cast<std::uint32_t>(index);
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(kFewest);             // at most a quarter of them is taken
  std::vector<std::uint32_t> used_ = std::vector<std::uint32_t>(1);  // slots; one more than are taken
  std::size_t n_used_ = 0;
};

// A document and its score as one number, whose order is: better first, equal ones by document.
inline std::uint64_t to_key(float score, std::uint32_t document) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // minus zero is zero
  const std::uint32_t ascending = bits ^ (bits >> 31 ? ~0U : 0x80000000U);
  return std::uint64_t{~ascending} << 32 | document;
}
inline std::uint32_t document_of(std::uint64_t key) { return static_cast<std::uint32_t>(key); }
inline float score_of(std::uint64_t key) {
  const std::uint32_t ascending = ~static_cast<std::uint32_t>(key >> 32);
  return std::bit_cast<float>(ascending >> 31 ? ascending ^ 0x80000000U : ~ascending);
}

}  // namespace matchset
