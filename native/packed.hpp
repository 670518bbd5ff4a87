// Packed trees: how are weights laid out so that a query touches few cache lines and damaged data does no harm?
//
// The children of a node are scored together, up to 256 of them in one *block*. A block starts at a
// multiple of 64 bytes and holds
//   bias      float32 of each child
//   scale     the upper half of a float32 of each child, for 8-bit weights only: a weight is its byte
//             times the scale
//   buckets   where the rows of each bucket start, from the start of the block, 0 if it has none:
//             uint16, or uint32 in a block of more than 64 KiB
//   chunks    one per bucket with rows: their number (uint8), their keys (uint16, or uint32 if tags have
//             more than 11 bits), ascending, then the rows in that order
// A feature's number is shuffled; its high bits are the bucket and the rest the tag, so that bucket and
// tag identify the feature. A key is the tag above five bits that give the form and
// size of the row (RowShape): the dense weights of all children, a bitmap of the children and their
// weights, or one-byte child numbers and their weights. All numbers are little-endian.
//
// Nothing in a block is trusted. Buckets and rows that would reach outside the block are ignored; child
// numbers of one byte cannot exceed the 256 sums; and less than kSlack bytes, which follow the last
// block, can be read before such a check or past the end of a row.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace matchset {

static_assert(std::endian::native == std::endian::little, "packed trees are read as they lie on disk");

inline constexpr std::size_t kBlockAlign = 64;
inline constexpr std::size_t kMaxSiblings = 256;  // per block
inline constexpr std::size_t kSlack = 4096;
inline constexpr std::size_t kNarrowBlock = 65536;  // up to here buckets are uint16

enum class Precision : std::uint8_t { int8 = 1, float32 = 4 };  // bytes of a weight
constexpr std::size_t bytes_of(Precision precision) { return static_cast<std::size_t>(precision); }

struct PackedBlock {
  std::uint32_t offset;       // of its first byte, in units of kBlockAlign
  std::uint32_t first_child;  // number among the nodes of its level
  std::uint8_t last_child;    // number of children less one
  std::uint8_t bucket_bits;
  std::uint16_t unused;
};
static_assert(sizeof(PackedBlock) == 12);

// A bijection on numbers of `bits` bits whose high bits depend on all of its input.
struct Shuffle {
  unsigned bits;

  std::uint32_t mask() const { return static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1); }
  std::uint32_t operator()(std::uint32_t number) const {
    std::uint32_t h = (number * 0x9E3779B1U) & mask();
    h ^= h >> ((bits + 1) / 2);
    return (h * 0x85EBCA6BU) & mask();
  }
  std::uint32_t inverse(std::uint32_t h) const {
    h = (h * 0xA5CB9243U) & mask();
    h ^= h >> ((bits + 1) / 2);
    return (h * 0x0E8B2F51U) & mask();
  }
};
static_assert(0x9E3779B1U * 0x0E8B2F51U == 1 && 0x85EBCA6BU * 0xA5CB9243U == 1);

inline Shuffle shuffle_of(std::uint32_t n_features) {
  return {static_cast<unsigned>(std::bit_width(n_features == 0 ? 0U : n_features - 1))};
}

inline constexpr unsigned kCodeBits = 5;
inline constexpr std::uint32_t kDenseCode = 31;
inline constexpr unsigned kShortTag = 16 - kCodeBits;  // up to here keys are uint16
inline constexpr unsigned kLongTag = 32 - kCodeBits;

// How rows over `n_children` are written. A row with weights for at least half of them is dense. With up to 16 weights
// the code is their number less one; with more, the number is rounded up by at most step - 1 weights.
struct RowShape {
  std::uint32_t n_children;
  std::uint32_t weight_bytes;

  std::uint32_t dense_from() const { return (n_children + 1) / 2; }  // weights
  std::uint32_t bitmap_from() const { return n_children > 128 ? 17 : (n_children + 7) / 8; }
  std::uint32_t bitmap_bytes() const { return (n_children + 7) / 8; }
  std::uint32_t step() const { return dense_from() <= 32 ? 1 : (dense_from() - 17 + 14) / 15; }
  std::uint32_t code(std::uint32_t n) const {
    if (n >= dense_from()) return kDenseCode;
    return n <= 16 ? n - 1 : 15 + (n - 16 + step() - 1) / step();
  }
  std::uint32_t room(std::uint32_t code) const { return code < 16 ? code + 1 : 16 + (code - 15) * step(); }
  std::uint32_t size(std::uint32_t code) const {  // bytes
    if (code == kDenseCode) return n_children * weight_bytes;
    return room(code) * weight_bytes + (room(code) >= bitmap_from() ? bitmap_bytes() : room(code));
  }
};

// A packed tree over borrowed arrays, which may be memory-mapped and damaged.
struct PackedView {
  std::span<const std::uint32_t> first_block;  // of each parent, level by level, and the end, (n_parents + 1,)
  std::span<const PackedBlock> blocks;         // and the end, (n_blocks + 1,)
  std::span<const std::uint8_t> data;
  std::vector<std::uint32_t> sizes;         // nodes of each level below the root; the last are the leaves
  std::vector<std::uint32_t> first_parent;  // of each level, in first_block, (n_levels,)
  Precision precision = Precision::float32;
  std::uint32_t n_features = 0;

  Shuffle shuffle() const { return shuffle_of(n_features); }
  std::size_t n_levels() const { return sizes.size(); }
  std::uint32_t n_parents(std::size_t level) const { return level == 0 ? 1 : sizes[level - 1]; }
};

// Throws unless every block lies inside the data and every node has exactly one parent. The contents of
// blocks are not read.
void check(const PackedView& tree);

// One block and the positions of its parts.
struct BlockView {
  const std::uint8_t* begin;
  std::size_t size;  // at most up to the slack
  std::uint32_t n_children;
  std::uint32_t first_child;
  unsigned bucket_bits, tag_bits;
  bool has_wide_buckets;
  std::size_t buckets_at;

  std::size_t key_bytes() const { return tag_bits <= kShortTag ? 2 : 4; }
  BlockView(const PackedView& tree, std::size_t b, unsigned feature_bits);
  std::uint32_t bucket(std::uint32_t h) const { return h >> tag_bits; }
  const std::uint8_t* bucket_address(std::uint32_t h) const {
    return begin + buckets_at + bucket(h) * (has_wide_buckets ? 4U : 2U);
  }
  // Where the chunk of a bucket starts in the block, 0 if there is none.
  std::uint32_t chunk_at(std::uint32_t h) const {
    std::uint32_t at = 0;
    std::memcpy(&at, bucket_address(h), has_wide_buckets ? 4 : 2);
    return at < size ? at : 0;
  }
};

inline BlockView::BlockView(const PackedView& tree, std::size_t b, unsigned feature_bits) {
  const PackedBlock& block = tree.blocks[b];
  begin = tree.data.data() + block.offset * kBlockAlign;
  size = (tree.blocks[b + 1].offset - block.offset) * kBlockAlign;
  n_children = block.last_child + 1U;
  first_child = block.first_child;
  bucket_bits = block.bucket_bits;
  tag_bits = feature_bits - bucket_bits;
  has_wide_buckets = size > kNarrowBlock;
  buckets_at = n_children * (tree.precision == Precision::int8 ? 6U : 4U);
}

}  // namespace matchset
