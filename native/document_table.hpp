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
  Value* get(std::uint32_t document) { return const_cast<Value*>(std::as_const(*this).get(document)); }

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
// Key and sum lie together in a slot, and adding branches neither on whether a document is new nor on whether it is
// known, which nobody could predict. Only as many slots are used as a query needs, so that they stay in the cache.
class Accumulator {
 public:
  // Room for so many further documents; `add` takes no more than that.
  void reserve(std::size_t n) {
    used_.resize(std::max(used_.size(), n_used_ + n + 1));
    const std::size_t wanted = std::bit_ceil(std::max(kFewest, kRoom * (n_used_ + n)));
    if (n_used_ == 0)
      use_slots(wanted);
    else if (wanted > n_slots_)
      grow(wanted);
  }

  // Adds amount_of(i) to the i-th of some documents.
  template <typename Amount>
  void add(std::span<const std::int32_t> documents, Amount&& amount_of) {
    Slot* const slots = slots_.data();  // these stay in registers, whatever is written meanwhile
    std::uint32_t* const used = used_.data();
    std::size_t n_used = n_used_;
    const std::size_t mask = n_slots_ - 1;
    const int shift = shift_;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      const auto document = static_cast<std::uint32_t>(documents[i]);
      std::size_t index = (document * kSpread) >> shift;
      while (is_other(slots[index], document)) index = (index + 1) & mask;
      used[n_used] = static_cast<std::uint32_t>(index);
      n_used += slots[index].document == kFree ? 1 : 0;
      slots[index].document = document;
      slots[index].sum += amount_of(i);
    }
    n_used_ = n_used;
  }
  // The same, of those documents alone to which something was added before.
  template <typename Amount>
  void add_known(std::span<const std::int32_t> documents, Amount&& amount_of) {
    Slot* const slots = slots_.data();
    const std::size_t mask = n_slots_ - 1;
    const int shift = shift_;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      const auto document = static_cast<std::uint32_t>(documents[i]);
      std::size_t index = (document * kSpread) >> shift;
      while (is_other(slots[index], document)) index = (index + 1) & mask;
      const float amount = amount_of(i);
      slots[index].sum += slots[index].document == kFree ? 0.0F : amount;
    }
  }
  void add(std::int32_t document, float amount) {
    add({&document, 1}, [&](std::size_t) { return amount; });
  }

  // The sum of a document; 0 where nothing was added.
  float operator[](std::uint32_t document) const { return slots_[find(document)].sum; }

  std::size_t size() const { return n_used_; }

  // Calls visit(document, sum) in the order in which documents were first added to.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < n_used_; ++i) visit(slots_[used_[i]].document, slots_[used_[i]].sum);
  }
  // The same, and nothing is left.
  template <typename Visit>
  void drain(Visit&& visit) {
    for (std::size_t i = 0; i < n_used_; ++i) {
      const Slot slot = std::exchange(slots_[used_[i]], {});
      visit(slot.document, slot.sum);
    }
    n_used_ = 0;
  }

  void clear() {
    drain([](std::uint32_t, float) {});
  }

 private:
  static constexpr std::uint32_t kFree = ~0U, kSpread = 0x9E3779B1U;
  static constexpr std::size_t kFewest = 1024, kRoom = 4;  // slots; slots per document
  struct Slot {
    std::uint32_t document = kFree;
    float sum = 0;
  };

  // Whether a slot belongs to another document, by one condition that is rarely true.
  static bool is_other(const Slot& slot, std::uint32_t document) {
    return std::min(slot.document ^ document, slot.document ^ kFree) != 0;
  }

  // The slot of a document, or the free one where it belongs.
  std::size_t find(std::uint32_t document) const {
    std::size_t slot = (document * kSpread) >> shift_;
    while (is_other(slots_[slot], document)) slot = (slot + 1) & (n_slots_ - 1);
    return slot;
  }

  void use_slots(std::size_t n_slots) {
    if (slots_.size() < n_slots) slots_.resize(n_slots);
    n_slots_ = n_slots;
    shift_ = 32 - std::countr_zero(n_slots);
  }

  void grow(std::size_t n_slots) {
    std::vector<Slot> old;
    old.reserve(n_used_);
    drain([&](std::uint32_t document, float sum) { old.push_back({document, sum}); });
    use_slots(n_slots);
    for (const Slot& slot : old) {
      const std::size_t index = find(slot.document);
      slots_[index] = slot;
      used_[n_used_++] = static_cast<std::uint32_t>(index);
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(kFewest);             // all but the first n_slots_ are free
  std::vector<std::uint32_t> used_ = std::vector<std::uint32_t>(1);  // slots; one more than are taken
  std::size_t n_used_ = 0, n_slots_ = kFewest;
  int shift_ = 32 - std::countr_zero(kFewest);
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
