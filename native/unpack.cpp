#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "pack.hpp"

namespace matchset {
namespace {

struct Entry {
  std::uint32_t feature;
  std::uint16_t child;
  float weight;
};

void damaged() { throw std::invalid_argument("rows must lie inside their block"); }

// Appends the entries of one block, whose first child is number `child_base` of its parent's.
class BlockReader {
 public:
  BlockReader(const PackedView& tree, std::size_t b)
      : block_(tree, b, tree.shuffle().bits), shuffle_(tree.shuffle()), precision_(tree.precision),
        n_features_(tree.n_features),
        shape_{block_.n_children, static_cast<std::uint32_t>(bytes_of(tree.precision))} {}

  void read(std::size_t child_base, std::vector<Entry>& out) const {
    const std::size_t width = block_.key_bytes();
    for (std::uint64_t bucket = 0; bucket >> block_.bucket_bits == 0; ++bucket) {
      const auto high = static_cast<std::uint32_t>(bucket << block_.tag_bits);
      const std::size_t at = block_.chunk_at(high);
      if (at == 0) continue;
      const std::size_t n_rows = block_.begin[at];
      std::size_t row_at = at + 1 + n_rows * width;
      for (std::size_t r = 0; r < n_rows; ++r) {
        std::uint32_t key = 0;
        std::memcpy(&key, block_.begin + at + 1 + r * width, width);
        const std::uint32_t tag = key >> kCodeBits, code = key & kDenseCode, feature = shuffle_.inverse(high | tag);
        if (tag >> block_.tag_bits != 0 || feature >= n_features_ || row_at + shape_.size(code) > block_.size) damaged();
        read_row(feature, code, row_at, child_base, out);
        row_at += shape_.size(code);
      }
    }
  }

  float bias(std::size_t child) const { return load<float>(child * sizeof(float)); }

 private:
  float scale(std::size_t child) const {
    return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(4 * block_.n_children + 2 * child)} << 16);
  }

  template <typename T>
  T load(std::size_t at) const {
    T value;
    std::memcpy(&value, block_.begin + at, sizeof value);
    return value;
  }

  float weight(std::size_t weights_at, std::size_t i, std::size_t child) const {
    if (precision_ == Precision::float32) return load<float>(weights_at + i * sizeof(float));
    return static_cast<float>(load<std::int8_t>(weights_at + i)) * scale(child);
  }

  void read_row(std::uint32_t feature, std::uint32_t code, std::size_t at, std::size_t child_base,
                std::vector<Entry>& out) const {
    const std::uint32_t room = shape_.room(code);
    const bool is_dense = code == kDenseCode, is_bitmap = !is_dense && room >= shape_.bitmap_from();
    const std::size_t weights_at = is_dense ? at : at + (is_bitmap ? shape_.bitmap_bytes() : room);
    const auto add = [&](std::size_t i, std::size_t child) {
      if (child >= shape_.n_children) damaged();
      const float value = weight(weights_at, i, child);
      if (!is_dense || value != 0) out.push_back({feature, static_cast<std::uint16_t>(child_base + child), value});
    };
    if (!is_dense && !is_bitmap) {
      for (std::size_t i = 0; i < room; ++i) add(i, block_.begin[at + i]);
      return;
    }
    std::size_t i = 0;
    for (std::size_t child = 0; child < shape_.n_children; ++child)
      if (is_dense || (block_.begin[at + child / 8] >> child % 8 & 1) != 0) {
        if (!is_dense && i >= room) damaged();
        add(i++, child);
      }
  }

  BlockView block_;
  Shuffle shuffle_;
  Precision precision_;
  std::uint32_t n_features_;
  RowShape shape_;
};

}  // namespace

ParentRows unpack(const PackedView& tree, std::size_t level, std::size_t parent) {
  if (level >= tree.n_levels() || parent >= tree.n_parents(level)) throw std::out_of_range("a node must be in the tree");
  ParentRows rows;
  std::vector<Entry> entries;
  const std::size_t global = tree.first_parent[level] + parent;
  for (std::size_t b = tree.first_block[global]; b < tree.first_block[global + 1]; ++b) {
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

}  // namespace matchset
