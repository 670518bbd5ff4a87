// Packing: how do trained layers become a packed tree?
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "buffer.hpp"
#include "packed.hpp"

namespace matchset {

// Weights of some parents of a layer, by parent, feature and child; arrays are checked when read.
struct LayerPart {
  std::span<const std::int64_t> n_features;  // of each parent, (n_parents,)
  std::span<const std::int32_t> features;    // of each parent, ascending, (n_rows,)
  std::span<const std::int32_t> n_entries;   // of each feature, (n_rows,)
  std::span<const std::uint16_t> children;   // number among its siblings, ascending in a row, (n_entries,)
  std::span<const float> weights;            // (n_entries,)
  std::span<const float> bias;               // of each child, (n_children,)
};

struct PackedLayer {
  std::span<const std::int64_t> first_child;  // of each parent, and the end, (n_parents + 1,)
  std::vector<LayerPart> parts;               // of all parents, one after another
};

struct PackedArrays {
  std::vector<std::uint32_t> first_block;
  std::vector<PackedBlock> blocks;
  RawBuffer<std::uint8_t> data;
};
// The layers of a whole tree, or any ranges of its parents.
PackedArrays pack(std::span<const PackedLayer> layers, std::uint32_t n_features, Precision precision, bool is_whole,
                  unsigned n_threads);

}  // namespace matchset
