#include "pack.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kRowsPerBucket = 8;  // at most, on average; sixteen are compared in one step

// A part with the offsets that its counts make.
struct PartView {
  PartView() = default;
  PartView(const LayerPart& part, std::span<const std::int64_t> first_child)
      : arrays(part), first_child(first_child), first_row(sum(part.n_features, part.features.size())),
        first_entry(sum(part.n_entries, part.children.size())) {
    if (part.n_entries.size() != part.features.size() || part.weights.size() != part.children.size())
      throw std::invalid_argument("entries of a layer must have one child and one weight each");
  }

  std::size_t n_parents() const { return arrays.n_features.size(); }

  LayerPart arrays;
  std::span<const std::int64_t> first_child;  // of each parent in its layer, and the end, (n_parents + 1,)
  std::vector<std::int64_t> first_row;        // (n_parents + 1,)
  std::vector<std::int64_t> first_entry;      // (n_rows + 1,)

 private:
  template <typename Count>
  static std::vector<std::int64_t> sum(std::span<const Count> counts, std::size_t total) {
    std::vector<std::int64_t> offsets(counts.size() + 1);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] < 0 || static_cast<std::uint64_t>(counts[i]) > total)
        throw std::invalid_argument("counts of a layer must not be negative or too large; got " +
                                    std::to_string(counts[i]));
      offsets[i + 1] = offsets[i] + counts[i];
    }
    if (static_cast<std::uint64_t>(offsets.back()) != total)
      throw std::invalid_argument("counts of a layer must sum to " + std::to_string(total) + "; got " +
                                  std::to_string(offsets.back()));
    return offsets;
  }
};

// A row of a block before it is written.
struct Row {
  std::uint32_t hash;  // of its feature
  std::uint32_t child_base;
  std::span<const std::uint16_t> children;
  std::span<const float> weights;
};

template <typename T>
void put(Buffer<std::uint8_t>& out, T value) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

// Writes one block: siblings `begin` to `end` of a parent.
class BlockWriter {
 public:
  BlockWriter(const PartView& part, std::size_t parent, Precision precision, Shuffle shuffle)
      : part_(part), parent_(parent), precision_(precision), shuffle_(shuffle) {}

  // Appends the block to `out` and returns its bucket bits.
  std::uint8_t write(std::size_t begin, std::size_t end, Buffer<std::uint8_t>& out) {
    const auto first = static_cast<std::size_t>(part_.first_child[parent_] - part_.first_child[0]);
    const std::size_t start = out.size();
    shape_ = {static_cast<std::uint32_t>(end - begin), static_cast<std::uint32_t>(bytes_of(precision_))};
    find_rows(begin, end);
    for (std::size_t c = begin; c < end; ++c) put(out, part_.arrays.bias[first + c]);
    if (precision_ == Precision::int8) put_scales(out);
    const unsigned bits = choose_bits(out.size() - start);
    put_rows(bits, start, out);
    while (out.size() % kBlockAlign != 0) out.push_back(0);
    if (out.size() - start > std::numeric_limits<std::uint32_t>::max())
      throw std::invalid_argument("the weights of a node must take less than 4 GiB");
    return static_cast<std::uint8_t>(bits);
  }

 private:
  // Rows with an entry among the siblings, by hash.
  void find_rows(std::size_t begin, std::size_t end) {
    rows_.clear();
    const LayerPart& arrays = part_.arrays;
    for (auto r = static_cast<std::size_t>(part_.first_row[parent_]);
         r < static_cast<std::size_t>(part_.first_row[parent_ + 1]); ++r) {
      const auto from = static_cast<std::size_t>(part_.first_entry[r]);
      const std::size_t size = static_cast<std::size_t>(part_.first_entry[r + 1]) - from;
      const auto all = arrays.children.subspan(from, size);
      if (!std::is_sorted(all.begin(), all.end(), std::less_equal<>()) && size > 1)
        throw std::invalid_argument("children of a feature row must ascend, none twice");
      if (!all.empty() && all.back() >= part_.first_child[parent_ + 1] - part_.first_child[parent_])
        throw std::invalid_argument("children must be within their parent");
      const auto lower = static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), begin) - all.begin());
      const auto upper = static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), end) - all.begin());
      if (lower == upper) continue;
      const auto weights = arrays.weights.subspan(from + lower, upper - lower);
      for (const float weight : weights)
        if (!std::isfinite(weight)) throw std::invalid_argument("weights must be finite");
      rows_.push_back({shuffle_(static_cast<std::uint32_t>(arrays.features[r])), static_cast<std::uint32_t>(begin),
                       all.subspan(lower, upper - lower), weights});
    }
    std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.hash < b.hash; });
  }

  void put_scales(Buffer<std::uint8_t>& out) {
    scales_.assign(shape_.n_children, 0.0F);
    for_each_weight(
        [&](std::size_t child, float weight) { scales_[child] = std::max(scales_[child], std::fabs(weight)); });
    // Weights that were rounded before are whole multiples of a scale, up to 126 or 127 times. Such a scale stays, so
    // that packing what was unpacked changes no weight.
    kept_.assign(scales_.begin(), scales_.end());
    for (float& scale : kept_) {
      const float largest = scale;
      scale /= 126;
      if ((std::bit_cast<std::uint32_t>(scale) & 0xFFFF) != 0 || scale * 126 != largest) scale = 0;
    }
    for_each_weight([&](std::size_t child, float weight) {
      if (kept_[child] != 0 && std::nearbyint(weight / kept_[child]) * kept_[child] != weight) kept_[child] = 0;
    });
    for (std::size_t child = 0; child < scales_.size(); ++child) {
      // Rounded up to a number that the upper half of the bits can hold.
      const float wanted = kept_[child] != 0 ? kept_[child] : scales_[child] / 127;
      const auto half = static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(wanted) + 0xFFFF) >> 16);
      scales_[child] = std::bit_cast<float>(std::uint32_t{half} << 16);
      put(out, half);
    }
  }

  // Calls visit(child of the block, weight) for every weight.
  template <typename Visit>
  void for_each_weight(Visit&& visit) const {
    for (const Row& row : rows_)
      for (std::size_t i = 0; i < row.children.size(); ++i) visit(row.children[i] - row.child_base, row.weights[i]);
  }

  // The number of buckets that gives the smallest block: more buckets may make the tags shorter.
  unsigned choose_bits(std::size_t head) const {
    std::size_t payload = head;
    for (const Row& row : rows_) payload += shape_.size(shape_.code(static_cast<std::uint32_t>(row.children.size())));
    unsigned best = shuffle_.bits;
    std::size_t smallest = std::numeric_limits<std::size_t>::max();
    for (unsigned bits = shuffle_.bits > kLongTag ? shuffle_.bits - kLongTag : 0; bits <= shuffle_.bits; ++bits) {
      const std::size_t n_buckets = std::size_t{1} << bits;
      if (n_buckets * kRowsPerBucket < rows_.size() || has_long_bucket(bits)) continue;
      const std::size_t keys = rows_.size() * (shuffle_.bits - bits <= kShortTag ? 2 : 4);
      const std::size_t least = payload + keys + 3 * n_buckets;  // with the row counts
      const std::size_t size = least + (least > kNarrowBlock ? 2 * n_buckets : 0);
      if (size < smallest) best = bits, smallest = size;
      if (n_buckets > 256 * (rows_.size() + 1)) break;
    }
    return best;
  }

  bool has_long_bucket(unsigned bits) const {
    constexpr std::size_t kMost = 255;
    const unsigned tag_bits = shuffle_.bits - bits;
    for (std::size_t i = kMost; i < rows_.size(); ++i)
      if (rows_[i].hash >> tag_bits == rows_[i - kMost].hash >> tag_bits) return true;
    return false;
  }

  void put_rows(unsigned bits, std::size_t start, Buffer<std::uint8_t>& out) {
    const unsigned tag_bits = shuffle_.bits - bits;
    const std::size_t n_buckets = std::size_t{1} << bits, buckets_at = out.size();
    std::vector<std::uint32_t> chunk_at(n_buckets, 0);
    for (const std::size_t width : {2U, 4U}) {  // a block too large for uint16 offsets is written again
      out.resize(buckets_at + width * n_buckets);
      for (std::size_t from = 0; from < rows_.size();) {
        const std::uint32_t bucket = rows_[from].hash >> tag_bits;
        std::size_t to = from;
        while (to < rows_.size() && rows_[to].hash >> tag_bits == bucket) ++to;
        chunk_at[bucket] = static_cast<std::uint32_t>(out.size() - start);
        put_chunk(std::span(rows_).subspan(from, to - from), tag_bits, out);
        from = to;
      }
      if (width == 4 || out.size() - start <= kNarrowBlock) {
        for (std::size_t b = 0; b < n_buckets; ++b) std::memcpy(&out[buckets_at + width * b], &chunk_at[b], width);
        return;
      }
    }
  }

  void put_chunk(std::span<const Row> rows, unsigned tag_bits, Buffer<std::uint8_t>& out) {
    out.push_back(static_cast<std::uint8_t>(rows.size()));
    for (const Row& row : rows) {
      const auto tag = static_cast<std::uint32_t>(row.hash & ((std::uint64_t{1} << tag_bits) - 1));
      const std::uint32_t key = tag << kCodeBits | shape_.code(static_cast<std::uint32_t>(row.children.size()));
      if (tag_bits <= kShortTag)
        put(out, static_cast<std::uint16_t>(key));
      else
        put(out, key);
    }
    for (const Row& row : rows) put_row(row, out);
  }

  void put_row(const Row& row, Buffer<std::uint8_t>& out) {
    const std::size_t n = row.children.size(), at = out.size(), width = bytes_of(precision_);
    const std::uint32_t code = shape_.code(static_cast<std::uint32_t>(n));
    const bool is_dense = code == kDenseCode, is_bitmap = !is_dense && shape_.room(code) >= shape_.bitmap_from();
    const std::size_t weights_at = is_dense ? at : at + (is_bitmap ? shape_.bitmap_bytes() : n);
    out.resize(at + shape_.size(code));
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t child = row.children[i] - row.child_base;
      if (is_bitmap) out[at + child / 8] = static_cast<std::uint8_t>(out[at + child / 8] | 1U << child % 8);
      if (!is_bitmap && !is_dense) out[at + i] = static_cast<std::uint8_t>(child);
      put_weight(row, i, &out[weights_at + (is_dense ? child : i) * width]);
    }
  }

  void put_weight(const Row& row, std::size_t i, std::uint8_t* out) const {
    const float weight = row.weights[i];
    if (precision_ == Precision::float32) {
      std::memcpy(out, &weight, sizeof weight);
      return;
    }
    const float scale = scales_[row.children[i] - row.child_base];
    const float steps = scale > 0 ? std::clamp(std::nearbyint(weight / scale), -127.0F, 127.0F) : 0.0F;
    *out = static_cast<std::uint8_t>(static_cast<std::int8_t>(steps));
  }

  const PartView& part_;
  std::size_t parent_;
  Precision precision_;
  Shuffle shuffle_;
  RowShape shape_{};
  std::vector<Row> rows_;
  std::vector<float> scales_, kept_;
};

struct PackedParent {
  std::vector<PackedBlock> blocks;
  Buffer<std::uint8_t> data;
};

PackedParent pack_parent(const PartView& part, std::size_t parent, Precision precision, Shuffle shuffle) {
  const std::int64_t begin = part.first_child[parent], end = part.first_child[parent + 1];
  if (begin < part.first_child[0] || end < begin ||
      static_cast<std::uint64_t>(end - part.first_child[0]) > part.arrays.bias.size())
    throw std::invalid_argument("child offsets must ascend and end inside the layer");
  const auto n_children = static_cast<std::size_t>(end - begin);
  PackedParent packed;
  BlockWriter writer(part, parent, precision, shuffle);
  for (std::size_t from = 0; from < n_children; from += kMaxSiblings) {
    const std::size_t to = std::min(n_children, from + kMaxSiblings);
    const auto offset = static_cast<std::uint32_t>(packed.data.size() / kBlockAlign);
    const std::uint8_t bits = writer.write(from, to, packed.data);
    packed.blocks.push_back({offset, static_cast<std::uint32_t>(begin + static_cast<std::int64_t>(from)),
                             static_cast<std::uint8_t>(to - from - 1), bits, 0});
  }
  return packed;
}

// The parts of all layers, in order; checks that they fit together.
std::vector<PartView> view_parts(std::span<const PackedLayer> layers, bool is_whole, unsigned n_threads) {
  std::vector<std::pair<LayerPart, std::span<const std::int64_t>>> parts;
  std::size_t n_parents = 1;
  for (const PackedLayer& layer : layers) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    std::size_t at = 0, n_children = 0;
    const std::int64_t first = layer.first_child.empty() ? 0 : layer.first_child.front();
    if (first < 0 || first > (is_whole ? 0 : kMost))
      throw std::invalid_argument("child offsets must begin with 0, or inside the layer; got " + std::to_string(first));
    for (const LayerPart& part : layer.parts) {
      if (at + part.n_features.size() + 1 > layer.first_child.size()) break;
      parts.emplace_back(part, layer.first_child.subspan(at, part.n_features.size() + 1));
      if (layer.first_child[at] != first + static_cast<std::int64_t>(n_children)) break;
      at += part.n_features.size();
      n_children += part.bias.size();
    }
    if (!is_whole) n_parents = at;
    if (layer.first_child.size() != n_parents + 1 || at != n_parents)
      throw std::invalid_argument("a layer must have as many parents as the one above has nodes");
    if (layer.first_child.back() != first + static_cast<std::int64_t>(n_children) || layer.first_child.back() > kMost)
      throw std::invalid_argument("there must be a bias for each child, and at most 2147483647 children");
    n_parents = n_children;
  }
  std::vector<PartView> views(parts.size());
  parallel_for(parts.size(), n_threads, [&](std::size_t i) { views[i] = PartView(parts[i].first, parts[i].second); });
  return views;
}

// Joins the parents of all layers.
PackedArrays join(const std::vector<PackedParent>& parents, unsigned n_threads) {
  PackedArrays out;
  std::vector<std::size_t> starts;
  std::size_t end = 0;
  for (const PackedParent& parent : parents) {
    starts.push_back(end);
    out.first_block.push_back(static_cast<std::uint32_t>(out.blocks.size()));
    for (PackedBlock block : parent.blocks) {
      block.offset += static_cast<std::uint32_t>(end / kBlockAlign);
      out.blocks.push_back(block);
    }
    end += parent.data.size();
  }
  if (end / kBlockAlign > std::numeric_limits<std::uint32_t>::max())
    throw std::invalid_argument("a packed tree must take less than 256 GiB");
  out.first_block.push_back(static_cast<std::uint32_t>(out.blocks.size()));
  out.blocks.push_back({static_cast<std::uint32_t>(end / kBlockAlign), 0, 0, 0, 0});
  out.data.resize(end + kSlack);
  std::fill(out.data.end() - kSlack, out.data.end(), std::uint8_t{0});
  parallel_for(parents.size(), n_threads, [&](std::size_t p) {
    std::ranges::copy(parents[p].data, out.data.begin() + static_cast<std::ptrdiff_t>(starts[p]));
  });
  return out;
}

}  // namespace

PackedArrays pack(std::span<const PackedLayer> layers, std::uint32_t n_features, Precision precision, bool is_whole,
                  unsigned n_threads) {
  const Shuffle shuffle = shuffle_of(n_features);
  const std::vector<PartView> parts = view_parts(layers, is_whole, n_threads);
  std::vector<std::pair<std::size_t, std::size_t>> chosen;  // part and parent; the root, which takes longest, first
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t p = 0; p < parts[i].n_parents(); ++p) chosen.emplace_back(i, p);
  std::vector<PackedParent> parents(chosen.size());
  parallel_for(chosen.size(), n_threads, [&](std::size_t i) {
    parents[i] = pack_parent(parts[chosen[i].first], chosen[i].second, precision, shuffle);
  });
  return join(parents, n_threads);
}

}  // namespace matchset
