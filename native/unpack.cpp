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
    const std::size_t width = tag_bytes(block_.tag_bits);
    for (std::uint64_t bucket = 0; bucket >> block_.bucket_bits == 0; ++bucket) {
      const auto high = static_cast<std::uint32_t>(bucket << block_.tag_bits);
      const std::size_t at = block_.chunk_at(high);
      if (at == 0) continue;
      const std::size_t n_rows = block_.begin[at];
      std::size_t row_at = at + 1 + n_rows * (1 + width);
      for (std::size_t r = 0; r < n_rows; ++r) {
        const std::uint32_t n = block_.begin[at + 1 + r] + 1U;
        std::uint32_t tag = 0;
        std::memcpy(&tag, block_.begin + at + 1 + n_rows + r * width, width);
        const std::uint32_t feature = shuffle_.inverse(high | tag);
        if (std::uint64_t{tag} >> block_.tag_bits != 0 || feature >= n_features_ || n > shape_.n_children ||
            row_at + shape_.size(n) > block_.size)
          damaged();
        read_row(feature, n, row_at, child_base, out);
        row_at += shape_.size(n);
      }
    }
  }

  float bias(std::size_t child) const { return load<float>(child * sizeof(float)); }

 private:
  template <typename T>
  T load(std::size_t at) const {
    T value;
    std::memcpy(&value, block_.begin + at, sizeof value);
    return value;
  }

  float weight(std::size_t weights_at, std::size_t i, std::size_t child) const {
    if (precision_ == Precision::float32) return load<float>(weights_at + i * sizeof(float));
    return static_cast<float>(load<std::int8_t>(weights_at + i)) * load<float>((block_.n_children + child) * sizeof(float));
  }

  void read_row(std::uint32_t feature, std::uint32_t n, std::size_t at, std::size_t child_base,
                std::vector<Entry>& out) const {
    const bool is_dense = n >= shape_.dense_from(), is_bitmap = !is_dense && n >= shape_.bitmap_from();
    const std::size_t weights_at = is_dense ? at : at + (is_bitmap ? shape_.bitmap_bytes() : n);
    const auto add = [&](std::size_t i, std::size_t child) {
      if (child >= shape_.n_children) damaged();
      const float value = weight(weights_at, i, child);
      if (!is_dense || value != 0) out.push_back({feature, static_cast<std::uint16_t>(child_base + child), value});
    };
    if (!is_dense && !is_bitmap) {
      for (std::size_t i = 0; i < n; ++i) add(i, block_.begin[at + i]);
      return;
    }
    std::size_t i = 0;
    for (std::size_t child = 0; child < shape_.n_children; ++child)
      if (is_dense || (block_.begin[at + child / 8] >> child % 8 & 1) != 0) {
        if (i >= (is_dense ? shape_.n_children : n)) damaged();
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
  const std::size_t place = tree.first_parent[level] + parent;
  for (std::size_t b = tree.first_block[place]; b < tree.first_block[place + 1]; ++b) {
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
