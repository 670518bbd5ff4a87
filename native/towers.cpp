#include "towers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "crew.hpp"
#include "dense.hpp"
#include "matmul.hpp"
#include "rng.hpp"
#include "threads.hpp"
#include "tower_kernels.hpp"

namespace matchset {
namespace {

constexpr std::size_t kTexts = 16;      // per item of work
constexpr std::size_t kChunk = 32;      // rows or columns per item of work
constexpr std::size_t kFeatures = 128;  // per item of work
constexpr std::size_t kSparse = 4;      // gradients with at most one entry in so many are added entry by entry
// Of chance, below which a probability is zero. Nearly all are, and a step takes half the time; recall of the towers
// stays the same (a shop of 20,000 products 68.4/95.9/98.6 and 68.3/95.9/98.6 with a tenth, on validation queries).
constexpr float kLeastShare = 0.2F;

constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }
constexpr std::size_t count_chunks(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit; }

// What a step computes for one block of the batch.
struct BlockMemory {
  BlockMemory(std::size_t max_size, std::size_t d)
      : stride(round_up(max_size, kLanes) + kLanes),  // no power of two: rows would share cache sets
        logits(round_up(max_size, kChunk) * stride), rows(max_size * d), columns(max_size * d),
        turned(round_up(max_size, kLanes) * d) {}

  std::size_t stride;          // of logits
  std::vector<float> logits;   // cosines, then the gradient for each, (size, stride)
  std::vector<float> rows;     // panels of the rows' vectors
  std::vector<float> columns;  // panels of the columns' vectors
  std::vector<float> turned;   // panels of the same, with dimensions as rows
};

class Trainer {
 public:
  Trainer(const TowerData& data, const TowerRule& rule, const TowerSteps& steps, std::span<float> table,
          std::span<float> squares)
      : rule_(rule), steps_(steps), table_(table), squares_(squares), d_(rule.dimensions),
        batches_{Batch(data, rule), Batch(data, rule)} {
    const std::size_t n = count_chunks(steps.order.size(), steps.n_batches);
    const std::size_t n_titles = Batch::count_titles(data, rule, n), n_rows = n + n_titles;
    blocks_.emplace_back(n, d_);
    blocks_.emplace_back(n_titles, d_);
    vectors_.resize((2 * n_rows + kTileRows) * d_);  // the last four rows may be fewer
    gradients_.resize(2 * n_rows * d_);
    scales_.resize(2 * n_rows);
    losses_.resize(n_rows);
  }

  std::vector<float> run(unsigned n_threads) {
    mean_losses_.clear();
    Crew crew(n_threads);
    crew.run([&](unsigned) { train(crew); });
    return std::move(mean_losses_);
  }

 private:
  using Entries = std::vector<WeightedRow>;
  struct Scratch {
    std::vector<float> rows;    // (kChunk, d)
    std::vector<float> packed;  // columns of logits, (size, kChunk)
    Entries found;              // of a piece of a row of logits
    Entries entries[kChunk];    // of rows or columns of logits
  };
  struct Chunk {
    std::size_t block, begin;  // up to kChunk rows or columns
  };

  // What every member of the crew does.
  void train(Crew& crew) {
    Scratch scratch{std::vector<float>(kChunk * d_), {}, {}, {}};
    bool is_going = crew.each(1, [&](std::size_t) { take_batch(steps_.begin); });
    for (std::size_t at = steps_.begin; is_going && at < steps_.end; ++at) is_going = train_batch(crew, at, scratch);
  }

  bool train_batch(Crew& crew, std::size_t at, Scratch& scratch) {
    const Batch& batch = batches_[at % 2];
    const std::size_t n_first = count_chunks(batch.blocks[0].size, kChunk);
    const std::size_t n_chunks = n_first + count_chunks(batch.blocks[1].size, kChunk);
    const auto find = [&](std::size_t item) {
      return item < n_first ? Chunk{0, item * kChunk} : Chunk{1, (item - n_first) * kChunk};
    };
    return crew.each(count_chunks(batch.n_texts(), kTexts), [&](std::size_t item) { encode(batch, item); }) &&
           crew.each(n_chunks + 1,
                     [&](std::size_t item) {
                       if (item > 0) return compare_rows(batch, find(item - 1), scratch);
                       if (at + 1 < steps_.end) take_batch(at + 1);  // meanwhile
                     }) &&
           crew.each(n_chunks, [&](std::size_t item) { pull_columns(batch, find(item), scratch); }) &&
           crew.each(count_chunks(batch.features.size(), kFeatures) + 1, [&](std::size_t item) {
             if (item > 0) return update(batch, item - 1, steps_.first_step + at, scratch);
             add_losses(batch);
           });
  }

  void take_batch(std::size_t at) {
    const std::size_t n = steps_.order.size(), begin = at * n / steps_.n_batches, end = (at + 1) * n / steps_.n_batches;
    batches_[at % 2].take(steps_.order.subspan(begin, end - begin), steps_.first_step + at);
  }

  void encode(const Batch& batch, std::size_t item) {
    const std::size_t end = std::min(batch.n_texts(), (item + 1) * kTexts);
    for (std::size_t text = item * kTexts; text < end; ++text) {
      float* vector = vectors_.data() + text * d_;
      const std::uint32_t begin = batch.text_begin[text], size = batch.text_begin[text + 1] - begin;
      scales_[text] = mean_of_rows(table_.data(), d_, batch.text_features.data() + begin, size, vector);
      const std::size_t b = text >= batch.blocks[1].first_text ? 1 : 0;
      const Block& block = batch.blocks[b];
      BlockMemory& memory = blocks_[b];
      const std::size_t row = text - block.first_text;
      if (row < block.size) {
        copy_to_panels(vector, {memory.rows.data(), block.size, d_}, row);
      } else {
        copy_to_panels(vector, {memory.columns.data(), block.size, d_}, row - block.size);
        const Panels turned{memory.turned.data(), d_, round_up(block.size, kLanes)};
        for (std::size_t k = 0; k < d_; ++k) *turned.at(k, row - block.size) = vector[k];
      }
    }
  }

  // Cosines of some rows with all columns, the loss, and the gradients of the cosines and of the rows.
  void compare_rows(const Batch& batch, Chunk chunk, Scratch& scratch) {
    const Block& block = batch.blocks[chunk.block];
    BlockMemory& memory = blocks_[chunk.block];
    const std::size_t n = std::min(kChunk, block.size - chunk.begin), n_padded = round_up(n, kTileRows);
    const std::size_t first_text = block.first_text + chunk.begin, width = round_up(block.size, kLanes);
    float* logits = memory.logits.data() + chunk.begin * memory.stride;
    multiply({vectors_.data() + first_text * d_, d_, 1}, n_padded, {memory.turned.data(), d_, width}, logits,
             memory.stride);
    const SoftmaxRule softmax_rule{1 / rule_.temperature, kLeastShare / static_cast<float>(block.size),
                                   1 / (rule_.temperature * static_cast<float>(batch.n_rows()))};
    const std::size_t first_row = chunk.begin + (chunk.block == 0 ? 0 : batch.blocks[0].size);
    for (std::size_t i = 0; i < n; ++i) {
      float* row = logits + i * memory.stride;
      std::fill(row + block.size, row + width, kMasked);
      for (std::uint32_t m = block.mask_begin[chunk.begin + i]; m < block.mask_begin[chunk.begin + i + 1]; ++m)
        row[block.mask[m]] = kMasked;
      losses_[first_row + i] = softmax(row, width, chunk.begin + i, softmax_rule);
    }
    const std::span<Entries> entries(scratch.entries, n);
    for (std::size_t i = 0; i < n; ++i) find_nonzero(logits + i * memory.stride, width, entries[i]);
    if (are_few(entries, block.size))
      add_entries(entries, block.first_text + block.size, scratch);
    else
      multiply({logits, memory.stride, 1}, n_padded, {memory.columns.data(), block.size, d_}, scratch.rows.data(), d_);
    for (std::size_t i = 0; i < n; ++i) pull_back(first_text + i, scratch.rows.data() + i * d_);
  }

  // Gradients of some columns.
  void pull_columns(const Batch& batch, Chunk chunk, Scratch& scratch) {
    const Block& block = batch.blocks[chunk.block];
    const BlockMemory& memory = blocks_[chunk.block];
    const std::size_t n = std::min(kChunk, block.size - chunk.begin), n_padded = round_up(n, kTileRows);
    const std::span<Entries> entries(scratch.entries, n);
    find_columns(memory, block.size, chunk.begin, entries, scratch);
    if (are_few(entries, block.size)) {
      add_entries(entries, block.first_text, scratch);
    } else {
      scratch.packed.resize(block.size * kChunk);
      for (std::size_t row = 0; row < block.size; ++row)
        std::copy_n(memory.logits.data() + row * memory.stride + chunk.begin, n_padded,
                    scratch.packed.data() + row * kChunk);
      const Panels rows{blocks_[chunk.block].rows.data(), block.size, d_};
      multiply({scratch.packed.data(), 1, kChunk}, n_padded, rows, scratch.rows.data(), d_);
    }
    for (std::size_t i = 0; i < n; ++i)
      pull_back(block.first_text + block.size + chunk.begin + i, scratch.rows.data() + i * d_);
  }

  // What is not zero in some columns of the gradients of cosines.
  static void find_columns(const BlockMemory& memory, std::size_t size, std::size_t begin, std::span<Entries> columns,
                           Scratch& scratch) {
    for (Entries& each : columns) each.clear();
    for (std::size_t row = 0; row < size; ++row) {
      find_nonzero(memory.logits.data() + row * memory.stride + begin, round_up(columns.size(), kLanes), scratch.found);
      for (const auto& [column, weight] : scratch.found)
        if (column < columns.size()) columns[column].push_back({static_cast<std::uint32_t>(row), weight});
    }
  }

  // Whether adding entry by entry is faster; the sums are the same.
  static bool are_few(std::span<const Entries> some, std::size_t size) {
    std::size_t n_entries = 0;
    for (const Entries& each : some) n_entries += each.size();
    return n_entries * kSparse <= some.size() * size;
  }

  void add_entries(std::span<const Entries> some, std::size_t first_text, Scratch& scratch) const {
    for (std::size_t i = 0; i < some.size(); ++i)
      add_weighted(vectors_.data() + first_text * d_, d_, some[i], scratch.rows.data() + i * d_);
  }

  // From the gradient of a unit vector to that of the sum of its embeddings.
  void pull_back(std::size_t text, const float* gradient) {
    pull_through_length(vectors_.data() + text * d_, gradient, scales_[text], d_, gradients_.data() + text * d_);
  }

  void update(const Batch& batch, std::size_t item, std::size_t step, Scratch& scratch) {
    const float rate = rule_.learning_rate * half_cosine(step, steps_.n_steps);
    const std::size_t end = std::min(batch.features.size(), (item + 1) * kFeatures);
    for (std::size_t slot = item * kFeatures; slot < end; ++slot) {
      const std::uint32_t first = batch.feature_begin[slot], n = batch.feature_begin[slot + 1] - first;
      const auto feature = static_cast<std::size_t>(batch.features[slot]);
      if (slot + kReadAhead < end)
        prefetch_row(table_.data() + static_cast<std::size_t>(batch.features[slot + kReadAhead]) * d_, d_);
      add_rows(gradients_.data(), d_, batch.feature_texts.data() + first, n, scratch.rows.data());
      step_row(scratch.rows.data(), d_, rate, table_.data() + feature * d_, squares_[feature]);
    }
  }

  void add_losses(const Batch& batch) {
    double sum = 0;
    for (std::size_t row = 0; row < batch.n_rows(); ++row) sum += double{losses_[row]};
    mean_losses_.push_back(static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(1, batch.n_rows()))));
  }

  const TowerRule& rule_;
  const TowerSteps& steps_;
  const std::span<float> table_, squares_;
  const std::size_t d_;
  Batch batches_[2];  // the one that is trained, and the next
  std::vector<BlockMemory> blocks_;
  std::vector<float> vectors_, gradients_;  // of texts, (n_texts, d)
  std::vector<float> scales_;               // one over the length of each text's sum, or 0
  std::vector<float> losses_;               // of rows
  std::vector<float> mean_losses_;          // of steps
};

}  // namespace

void init_table(std::span<float> table, std::size_t dimensions, std::uint64_t seed, unsigned n_threads) {
  constexpr std::size_t kRows = 1024;
  const std::size_t n_rows = table.size() / dimensions;
  // Uniform, of variance 1 / dimensions: sums of embeddings are near normal anyhow.
  const float unit = std::sqrt(12.0F / static_cast<float>(dimensions)) / 16777216.0F;
  parallel_for(count_chunks(n_rows, kRows), n_threads, [&](std::size_t chunk) {
    for (std::size_t row = chunk * kRows; row < std::min(n_rows, (chunk + 1) * kRows); ++row) {
      Draws draws(seed, row);
      for (float& value : table.subspan(row * dimensions, dimensions))
        value = (static_cast<float>(draws.next() >> 40) - 8388607.5F) * unit;
    }
  });
}

std::vector<std::int32_t> shuffled(std::size_t n, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  Draws(seed, ~epoch).shuffle(std::span(order));
  return order;
}

std::vector<float> train_towers(const TowerData& data, const TowerRule& rule, const TowerSteps& steps,
                                std::span<float> table, std::span<float> squares, unsigned n_threads) {
  if (steps.begin >= steps.end) return {};
  return Trainer(data, rule, steps, table, squares).run(n_threads);
}

}  // namespace matchset
