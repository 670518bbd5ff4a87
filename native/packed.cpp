#include "packed.hpp"

#include <stdexcept>
#include <string>

namespace matchset {
namespace {

void check_block(const PackedView& tree, std::size_t b, std::uint32_t next_child, std::uint32_t n_left) {
  const auto fail = [b](const char* rule) {
    throw std::invalid_argument("block " + std::to_string(b) + " must " + rule);
  };
  const PackedBlock &block = tree.blocks[b], &next = tree.blocks[b + 1];
  const unsigned feature_bits = tree.shuffle().bits;
  if (next.offset < block.offset || next.offset * kBlockAlign + kSlack > tree.data.size()) fail("lie inside the data");
  if (block.first_child != next_child || block.last_child >= n_left)
    fail("hold the children that follow those of the block before");
  if (block.bucket_bits > feature_bits || feature_bits - block.bucket_bits > kLongTag)
    fail("have fewer buckets than there are features, and enough for its tags");
  const BlockView view(tree, b, feature_bits);
  if (view.buckets_at + (std::size_t{view.has_wide_buckets ? 4U : 2U} << view.bucket_bits) > view.size)
    fail("be as long as its table of buckets");
}

}  // namespace

void check(const PackedView& tree) {
  std::uint64_t n_parents = 0;
  for (std::size_t level = 0; level < tree.n_levels(); ++level) n_parents += tree.n_parents(level);
  if (tree.first_block.size() != n_parents + 1 || tree.blocks.empty())
    throw std::invalid_argument("first_block must have one entry per parent, and the end");
  if (tree.first_block.front() != 0 || tree.first_block.back() != tree.blocks.size() - 1)
    throw std::invalid_argument("first_block must go from 0 to the number of blocks");
  std::size_t parent = 0;
  for (std::size_t level = 0; level < tree.n_levels(); ++level) {
    std::uint32_t next_child = 0;
    for (std::uint32_t i = 0; i < tree.n_parents(level); ++i, ++parent) {
      const std::uint32_t begin = tree.first_block[parent], end = tree.first_block[parent + 1];
      if (end < begin || end >= tree.blocks.size()) throw std::invalid_argument("first_block must ascend");
      for (std::size_t b = begin; b < end; ++b) {
        check_block(tree, b, next_child, tree.sizes[level] - next_child);
        next_child += tree.blocks[b].last_child + 1U;
      }
    }
    if (next_child != tree.sizes[level]) throw std::invalid_argument("every node of a level must have a parent");
  }
}

}  // namespace matchset
