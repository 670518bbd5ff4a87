// Unpacking: which weights does a packed tree hold?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "packed.hpp"

namespace matchset {

// The functions below throw where a node is not in the tree, or a block that they read is damaged.

// All weights below one parent, as a LayerPart (pack.hpp) holds them, but for offsets.
struct ParentRows {
  std::vector<std::int32_t> features;  // ascending
  std::vector<std::int64_t> first_entry{0};
  std::vector<std::uint16_t> children;  // ascending in a row
  std::vector<float> weights;
  std::vector<float> bias;  // of each child
};
ParentRows unpack_parent(const PackedView& tree, std::size_t level, std::size_t parent);

// Weights of one node.
struct NodeWeights {
  std::vector<std::int32_t> features;
  std::vector<float> weights;
  float bias = 0;
};
// All of them, features ascending. This reads every row of the node's block.
NodeWeights unpack_node(const PackedView& tree, std::size_t level, std::size_t node);
// Those of the given features, in that order; features without a weight are left out. Time grows with the features,
// not with the block.
NodeWeights find_weights(const PackedView& tree, std::size_t level, std::size_t node,
                         std::span<const std::int32_t> features);

// The `n` features with the largest weights, largest first, ties by feature.
std::vector<std::int32_t> strongest_features(const PackedView& tree, std::size_t level, std::size_t node,
                                             std::size_t n);

}  // namespace matchset
