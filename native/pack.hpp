// Packing: how do trained layers become a packed tree?
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "buffer.hpp"
#include "csr.hpp"
#include "packed.hpp"

namespace matchset {

// Weights of one layer, by parent, feature and child; arrays are checked when read.
struct LayerView {
  std::span<const std::int64_t> first_child;  // of each parent, and the end, (n_parents + 1,)
  ListsView features;                         // of each parent, ascending
  std::span<const std::int64_t> first_entry;  // of each feature row, and the end, (n_rows + 1,)
  std::span<const std::uint16_t> children;    // number among its siblings, ascending in a row, (n_entries,)
  std::span<const float> weights;             // (n_entries,)
  std::span<const float> bias;                // of each child, (n_children,)
};

struct PackedArrays {
  std::vector<std::uint32_t> first_block;
  std::vector<PackedBlock> blocks;
  Buffer<std::uint8_t> data;
};
PackedArrays pack(std::span<const LayerView> layers, std::uint32_t n_features, Precision precision, unsigned n_threads);

}  // namespace matchset
