#include "unpack.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace matchset {
namespace {

struct Entry {
  std::uint32_t feature;
  std::uint16_t child;
  float weight;
};

[[noreturn]] void damaged() { throw std::invalid_argument("rows must lie inside their block"); }
[[noreturn]] void outside() { throw std::out_of_range("a node must be in the tree"); }

// Reads the rows of one block, one number at a time: this is for explaining and pruning, not for searching.
class BlockReader {
 public:
  BlockReader(const PackedView& tree, std::size_t b)
      : block_(tree, b, tree.shuffle().bits), shuffle_(tree.shuffle()), precision_(tree.precision),
        n_features_(tree.n_features), shape_{block_.n_children, static_cast<std::uint32_t>(bytes_of(tree.precision))} {
    for (std::uint32_t code = 0; code <= kDenseCode; ++code) {
      sizes_[code] = shape_.size(code);
      is_bitmap_[code] = code != kDenseCode && shape_.room(code) >= shape_.bitmap_from();
    }
  }

  float bias(std::size_t child) const { return load<float>(child * sizeof(float)); }

  // Appends all entries; the block's first child is number `child_base` among its siblings.
  void read(std::size_t child_base, std::vector<Entry>& out) const {
    for_each_row([&](std::uint32_t hash, std::uint32_t code, std::size_t at) {
      const std::uint32_t feature = feature_of(hash);
      for_each_child(code, at, [&](std::size_t child, float value) {
        out.push_back({feature, static_cast<std::uint16_t>(child_base + child), value});
      });
    });
  }

  // Appends the entries of one child.
  void read_child(std::size_t child, std::vector<std::pair<std::int32_t, float>>& out) const {
    for_each_row([&](std::uint32_t hash, std::uint32_t code, std::size_t at) {
      if (const auto value = weight_of(child, code, at))
        out.emplace_back(static_cast<std::int32_t>(feature_of(hash)), *value);
    });
  }

  // The weight of a feature for a child, where there is one.
  std::optional<float> find(std::uint32_t feature, std::size_t child) const {
    std::optional<float> found;
    const std::uint32_t wanted = shuffle_(feature);
    for_each_row_of(block_.bucket(wanted), [&](std::uint32_t hash, std::uint32_t code, std::size_t at) {
      if (hash == wanted) found = weight_of(child, code, at);
    });
    return found;
  }

 private:
  // Calls visit(hash of the feature, code, start of the row) for every row of the block.
  template <typename Visit>
  void for_each_row(Visit&& visit) const {
    for (std::uint64_t bucket = 0; bucket >> block_.bucket_bits == 0; ++bucket) for_each_row_of(bucket, visit);
  }

  template <typename Visit>
  void for_each_row_of(std::uint64_t bucket, Visit&& visit) const {
    const std::size_t width = block_.key_bytes();
    const auto high = static_cast<std::uint32_t>(bucket << block_.tag_bits);
    const std::size_t at = block_.chunk_at(high);
    if (at == 0) return;
    const std::size_t n_rows = block_.begin[at];
    std::size_t row_at = at + 1 + n_rows * width;
    for (std::size_t r = 0; r < n_rows; ++r) {
      std::uint32_t key = 0;
      std::memcpy(&key, block_.begin + at + 1 + r * width, width);
      const std::uint32_t tag = key >> kCodeBits, code = key & kDenseCode;
      if (tag >> block_.tag_bits != 0 || row_at + sizes_[code] > block_.size) damaged();
      visit(high | tag, code, row_at);
      row_at += sizes_[code];
    }
  }

  // Calls visit(child, weight) for every entry of a row.
  template <typename Visit>
  void for_each_child(std::uint32_t code, std::size_t at, Visit&& visit) const {
    const std::uint32_t room = shape_.room(code);
    if (code == kDenseCode) {
      for (std::size_t child = 0; child < shape_.n_children; ++child)
        if (const float value = weight(at, child, child); value != 0) visit(child, value);
      return;
    }
    std::size_t i = 0;
    if (is_bitmap_[code]) {
      for (std::size_t child = 0; child < shape_.n_children; ++child) {
        if (!has_bit(at, child)) continue;
        if (i >= room) damaged();
        visit(child, weight(at + shape_.bitmap_bytes(), i++, child));
      }
      return;
    }
    for (; i < room; ++i) {
      const std::size_t child = block_.begin[at + i];
      if (child >= shape_.n_children) damaged();
      visit(child, weight(at + room, i, child));
    }
  }

  // The entry of one child in a row, where there is one.
  std::optional<float> weight_of(std::size_t child, std::uint32_t code, std::size_t at) const {
    if (code == kDenseCode) {
      const float value = weight(at, child, child);
      return value != 0 ? std::optional(value) : std::nullopt;
    }
    const std::uint32_t room = shape_.room(code);
    if (is_bitmap_[code]) {
      if (!has_bit(at, child)) return std::nullopt;
      std::size_t i = 0;  // set bits before the child's
      for (std::size_t byte = 0; byte < child / 8; ++byte)
        i += static_cast<unsigned>(std::popcount(block_.begin[at + byte]));
      i += static_cast<unsigned>(std::popcount(block_.begin[at + child / 8] & ((1U << child % 8) - 1)));
      if (i >= room) damaged();
      return weight(at + shape_.bitmap_bytes(), i, child);
    }
    const std::size_t i = index_of(child, at, room);
    return i < room ? std::optional(weight(at + room, i, child)) : std::nullopt;
  }

  // The first of `room` bytes that is the child's number, or `room`; eight bytes at a time, because whether a child is
  // in a row cannot be guessed. What is read beyond the row is less than the slack.
  std::size_t index_of(std::size_t child, std::size_t at, std::size_t room) const {
    constexpr std::uint64_t kOnes = 0x0101010101010101U, kHighs = 0x8080808080808080U;
    for (std::size_t i = 0; i < room; i += 8) {
      const std::uint64_t differs = load<std::uint64_t>(at + i) ^ kOnes * child;
      const std::uint64_t zeros = (differs - kOnes) & ~differs & kHighs;  // exact up to the first zero byte
      const std::size_t found = i + static_cast<std::size_t>(std::countr_zero(zeros)) / 8;
      if (zeros != 0) return std::min(found, room);
    }
    return room;
  }

  std::uint32_t feature_of(std::uint32_t hash) const {
    const std::uint32_t feature = shuffle_.inverse(hash);
    if (feature >= n_features_) damaged();
    return feature;
  }

  bool has_bit(std::size_t at, std::size_t child) const { return (block_.begin[at + child / 8] >> child % 8 & 1) != 0; }

  float weight(std::size_t weights_at, std::size_t i, std::size_t child) const {
    if (precision_ == Precision::float32) return load<float>(weights_at + i * sizeof(float));
    return static_cast<float>(load<std::int8_t>(weights_at + i)) * scale(child);
  }

  float scale(std::size_t child) const {
    return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(4 * block_.n_children + 2 * child)} << 16);
  }

  template <typename T>
  T load(std::size_t at) const {
    T value;
    std::memcpy(&value, block_.begin + at, sizeof value);
    return value;
  }

  BlockView block_;
  Shuffle shuffle_;
  Precision precision_;
  std::uint32_t n_features_;
  RowShape shape_;
  std::array<std::uint32_t, kDenseCode + 1> sizes_;  // bytes of a row, by code
  std::array<bool, kDenseCode + 1> is_bitmap_;       // by code
};

// The block that holds a node: within a level, blocks hold the nodes in order.
std::size_t find_block(const PackedView& tree, std::size_t level, std::size_t node) {
  if (level >= tree.n_levels() || node >= tree.sizes[level]) outside();
  const std::size_t first = tree.first_parent[level];
  const auto blocks = tree.blocks.subspan(tree.first_block[first],
                                          tree.first_block[first + tree.n_parents(level)] - tree.first_block[first]);
  const auto after = std::ranges::upper_bound(blocks, node, {}, &PackedBlock::first_child);
  return static_cast<std::size_t>(after - blocks.begin()) - 1 + tree.first_block[first];
}

std::vector<std::pair<std::int32_t, float>> read_node(const PackedView& tree, std::size_t b, std::size_t node) {
  std::vector<std::pair<std::int32_t, float>> entries;  // feature, weight
  BlockReader(tree, b).read_child(node - tree.blocks[b].first_child, entries);
  return entries;
}

}  // namespace

ParentRows unpack_parent(const PackedView& tree, std::size_t level, std::size_t parent) {
  if (level >= tree.n_levels() || parent >= tree.n_parents(level)) outside();
  ParentRows rows;
  std::vector<Entry> entries;
  const std::uint32_t* first_block = &tree.first_block[tree.first_parent[level] + parent];
  for (std::size_t b = first_block[0]; b < first_block[1]; ++b) {
    const BlockReader reader(tree, b);
    reader.read(rows.bias.size(), entries);
    for (std::size_t child = 0; child <= tree.blocks[b].last_child; ++child) rows.bias.push_back(reader.bias(child));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.feature, a.child) < std::tie(b.feature, b.child); });
  for (std::size_t e = 0; e < entries.size(); ++e) {
    if (e == 0 || entries[e].feature != entries[e - 1].feature) {
      rows.features.push_back(static_cast<std::int32_t>(entries[e].feature));
      rows.first_entry.push_back(rows.first_entry.back());
    } else if (entries[e].child == entries[e - 1].child) {
      damaged();
    }
    ++rows.first_entry.back();
    rows.children.push_back(entries[e].child);
    rows.weights.push_back(entries[e].weight);
  }
  return rows;
}

NodeWeights unpack_node(const PackedView& tree, std::size_t level, std::size_t node) {
  const std::size_t b = find_block(tree, level, node);
  auto entries = read_node(tree, b, node);
  std::ranges::sort(entries, {}, [](const auto& entry) { return entry.first; });
  NodeWeights found;
  found.bias = BlockReader(tree, b).bias(node - tree.blocks[b].first_child);
  for (const auto& [feature, weight] : entries) {
    found.features.push_back(feature);
    found.weights.push_back(weight);
  }
  return found;
}

NodeWeights find_weights(const PackedView& tree, std::size_t level, std::size_t node,
                         std::span<const std::int32_t> features) {
  const std::size_t b = find_block(tree, level, node), child = node - tree.blocks[b].first_child;
  const BlockReader reader(tree, b);
  NodeWeights found;
  found.bias = reader.bias(child);
  for (const std::int32_t feature : features) {
    if (feature < 0 || static_cast<std::uint32_t>(feature) >= tree.n_features) continue;
    const auto weight = reader.find(static_cast<std::uint32_t>(feature), child);
    if (!weight) continue;
    found.features.push_back(feature);
    found.weights.push_back(*weight);
  }
  return found;
}

std::vector<std::int32_t> strongest_features(const PackedView& tree, std::size_t level, std::size_t node,
                                             std::size_t n) {
  auto entries = read_node(tree, find_block(tree, level, node), node);
  for (auto& [feature, weight] : entries)
    if (std::isnan(weight)) weight = -std::numeric_limits<float>::infinity();  // damaged, and would break the order
  n = std::min(n, entries.size());
  std::ranges::partial_sort(entries, entries.begin() + static_cast<std::ptrdiff_t>(n), {},
                            [](const auto& entry) { return std::pair(-entry.second, entry.first); });
  std::vector<std::int32_t> features;
  for (std::size_t i = 0; i < n; ++i) features.push_back(entries[i].first);
  return features;
}

}  // namespace matchset
