// A packed tree as Python holds it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "packed.hpp"
#include "python_arrays.hpp"

namespace matchset {

inline Precision to_precision(int bytes) {
  if (bytes != 1 && bytes != 4)
    throw std::invalid_argument("a weight must take 1 or 4 bytes; got " + std::to_string(bytes));
  return static_cast<Precision>(bytes);
}

// A packed tree that keeps its arrays alive.
class PackedTree {
 public:
  PackedTree(In<std::uint32_t> first_block, In<std::uint8_t> blocks, In<std::uint8_t> data, In<std::int32_t> labels,
             std::vector<std::uint32_t> sizes, std::uint32_t n_features, std::uint32_t n_labels, int weight_bytes)
      : first_block_(std::move(first_block)), blocks_(std::move(blocks)), data_(std::move(data)),
        labels_(std::move(labels)), n_labels_(n_labels) {
    if (blocks_.size() % sizeof(PackedBlock) != 0 ||
        reinterpret_cast<std::uintptr_t>(blocks_.data()) % alignof(PackedBlock) != 0)
      throw std::invalid_argument("blocks must be whole and aligned");
    if (sizes.empty()) throw std::invalid_argument("a tree must have at least one level; got 0");
    for (const std::uint32_t size : sizes)
      if (size > std::uint32_t{std::numeric_limits<std::int32_t>::max()})
        throw std::invalid_argument("a level must have at most 2147483647 nodes; got " + std::to_string(size));
    if (n_features > std::uint32_t{std::numeric_limits<std::int32_t>::max()})
      throw std::invalid_argument("at most 2147483647 features are possible; got " + std::to_string(n_features));
    if (labels_.size() != sizes.back()) throw std::invalid_argument("labels must have one entry per leaf");
    view_.first_block = to_span(first_block_);
    view_.blocks = {reinterpret_cast<const PackedBlock*>(blocks_.data()), blocks_.size() / sizeof(PackedBlock)};
    view_.data = to_span(data_);
    view_.sizes = std::move(sizes);
    for (std::uint32_t first = 0, level = 0; level < view_.n_levels(); first += view_.n_parents(level++))
      view_.first_parent.push_back(first);
    view_.precision = to_precision(weight_bytes);
    view_.n_features = n_features;
    check(view_);
  }

  const PackedView& view() const { return view_; }
  std::span<const std::int32_t> labels() const { return to_span(labels_); }  // of each leaf position

  std::int32_t label(std::uint32_t leaf) const {
    const std::int32_t label = labels_.data()[leaf];
    if (label < 0 || static_cast<std::uint32_t>(label) >= n_labels_)
      throw std::invalid_argument("labels must be below " + std::to_string(n_labels_) + "; got " +
                                  std::to_string(label));
    return label;
  }

  // Reorders one boolean per label to one per leaf.
  template <typename Byte>
  std::vector<std::uint8_t> by_leaf(std::span<const Byte> is_allowed) const {
    if (is_allowed.size() != n_labels_)
      throw std::invalid_argument("allowed must have one entry per label, " + std::to_string(n_labels_) + "; got " +
                                  std::to_string(is_allowed.size()));
    std::vector<std::uint8_t> leaves(labels_.size());
    for (std::uint32_t leaf = 0; leaf < leaves.size(); ++leaf)
      leaves[leaf] = is_allowed[static_cast<std::size_t>(label(leaf))];
    return leaves;
  }

 private:
  In<std::uint32_t> first_block_;
  In<std::uint8_t> blocks_, data_;
  In<std::int32_t> labels_;
  std::uint32_t n_labels_;
  PackedView view_;
};

}  // namespace matchset
