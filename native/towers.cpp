#include "towers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "clones.hpp"
#include "crew.hpp"
#include "dense.hpp"
#include "matmul.hpp"
#include "seeds.hpp"
#include "threads.hpp"
#include "tower_kernels.hpp"

namespace matchset {
namespace {

constexpr std::size_t kTexts = 16;      // per item of work
constexpr std::size_t kChunk = 32;      // rows or columns per item of work
constexpr std::size_t kFeatures = 128;  // per item of work

constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }
constexpr std::size_t count_chunks(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit; }

// What a step computes for one block of the batch.
struct BlockMemory {
  BlockMemory(std::size_t max_rows, std::size_t max_columns, std::size_t d)
      : stride(round_up(max_columns, kLanes) + kLanes),  // no power of two: rows would share cache sets
        logits(round_up(max_rows, kChunk) * stride), rows(max_rows * d), columns(max_columns * d),
        turned(round_up(max_columns, kLanes) * d) {}

  std::size_t stride;           // of logits
  std::vector<float> logits;    // cosines, then the gradient for each, (n_rows, stride)
  std::vector<float> rows;      // panels of the rows' vectors
  std::vector<float> columns;   // panels of the columns' vectors
  std::vector<float> turned;    // panels of the same, with dimensions as rows
};

class Trainer {
 public:
  Trainer(const TowerData& data, const TowerRule& rule, const TowerSteps& steps, std::span<float> table,
          std::span<float> squares)
      : rule_(rule), steps_(steps), table_(table), squares_(squares), d_(rule.dimensions),
        batches_{Batch(data, rule), Batch(data, rule)} {
    const std::size_t n = count_chunks(steps.order.size(), steps.n_batches);
    blocks_.reserve(2);
    for (int i = 0; i < 2; ++i) blocks_.emplace_back(2 * n, n, d_);
    vectors_.resize((4 * n + kChunk) * d_);
    gradients_.resize(4 * n * d_);
    scales_.resize(4 * n);
    losses_.resize(2 * n);
  }

  std::vector<float> run(unsigned n_threads) {
    mean_losses_.clear();
    Crew crew(n_threads);
    crew.run([&](unsigned) { train(crew); });
    return std::move(mean_losses_);
  }

 private:
  // What every member of the crew does.
  void train(Crew& crew) {
    std::vector<float> scratch(kChunk * d_), packed;
    const auto take = [&](std::size_t batch) { take_batch(batch); };
    if (!crew.each(1, [&](std::size_t) { take(steps_.begin); })) return;
    for (std::size_t at = steps_.begin; at < steps_.end; ++at) {
      const Batch& batch = batches_[at % 2];
      const bool is_last = at + 1 == steps_.end;
      const std::size_t n_rows = count_items(batch, &Block::n_rows), n_columns = count_items(batch, &Block::n_columns);
      const bool is_going = crew.each(count_chunks(batch.n_texts(), kTexts), [&](std::size_t item) { encode(batch, item); }) &&
          // The next batch is gathered while this one is compared.
          crew.each(n_rows + 1, [&](std::size_t item) {
            if (item > 0) compare_rows(batch, item - 1, scratch);
            else if (!is_last) take(at + 1);
          }) &&
          crew.each(n_columns, [&](std::size_t item) { pull_columns(batch, item, scratch, packed); }) &&
          crew.each(count_chunks(batch.features.size(), kFeatures) + 1, [&](std::size_t item) {
            if (item > 0) update(batch, item - 1, steps_.first_step + at, scratch);
            else add_losses(batch);
          });
      if (!is_going) return;
    }
  }

  void take_batch(std::size_t at) {
    const std::size_t n = steps_.order.size(), begin = at * n / steps_.n_batches, end = (at + 1) * n / steps_.n_batches;
    batches_[at % 2].take(steps_.order.subspan(begin, end - begin), steps_.first_step + at);
  }

  static std::size_t count_items(const Batch& batch, std::size_t Block::*size) {
    std::size_t n = 0;
    for (const Block& block : batch.blocks) n += count_chunks(block.*size, kChunk);
    return n;
  }

  // Block of an item, and its first row or column there.
  static std::pair<std::size_t, std::size_t> find_item(const Batch& batch, std::size_t Block::*size, std::size_t item) {
    const std::size_t n_first = count_chunks(batch.blocks[0].*size, kChunk);
    return item < n_first ? std::pair{std::size_t{0}, item * kChunk} : std::pair{std::size_t{1}, (item - n_first) * kChunk};
  }

  void encode(const Batch& batch, std::size_t item) {
    const std::size_t end = std::min(batch.n_texts(), (item + 1) * kTexts);
    for (std::size_t text = item * kTexts; text < end; ++text) {
      float* vector = vectors_.data() + text * d_;
      const std::uint32_t begin = batch.text_begin[text], size = batch.text_begin[text + 1] - begin;
      scales_[text] = mean_of_rows(table_.data(), d_, batch.text_features.data() + begin, size, vector);
      const std::size_t b = batch.blocks.size() == 2 && text >= batch.blocks[1].first_text ? 1 : 0;
      const Block& block = batch.blocks[b];
      const std::size_t place = text - block.first_text;
      BlockMemory& memory = blocks_[b];
      if (place < block.n_rows) {
        copy_to_panels(vector, d_, {memory.rows.data(), block.n_rows, d_}, place);
      } else {
        copy_to_panels(vector, d_, {memory.columns.data(), block.n_columns, d_}, place - block.n_rows);
        const Panels turned{memory.turned.data(), d_, round_up(block.n_columns, kLanes)};
        for (std::size_t k = 0; k < d_; ++k) *turned.at(k, place - block.n_rows) = vector[k];
      }
    }
  }

  // Cosines of some rows with all columns, the loss, and the gradients of the cosines and of the rows.
  void compare_rows(const Batch& batch, std::size_t item, std::vector<float>& scratch) {
    const auto [b, begin] = find_item(batch, &Block::n_rows, item);
    const Block& block = batch.blocks[b];
    BlockMemory& memory = blocks_[b];
    const std::size_t n = std::min(kChunk, block.n_rows - begin), padded = round_up(n, kTileRows);
    const std::size_t n_padded = round_up(block.n_columns, kLanes), first_row = b == 0 ? 0 : batch.blocks[0].n_rows;
    float* logits = memory.logits.data() + begin * memory.stride;
    multiply({vectors_.data() + (block.first_text + begin) * d_, d_, 1}, padded, {memory.turned.data(), d_, n_padded},
             logits, memory.stride);
    const float weight = 1 / (rule_.temperature * static_cast<float>(batch.n_rows()));
    for (std::size_t i = 0; i < n; ++i) {
      float* row = logits + i * memory.stride;
      std::fill(row + block.n_columns, row + n_padded, kMasked);
      for (std::uint32_t m = block.mask_begin[begin + i]; m < block.mask_begin[begin + i + 1]; ++m)
        row[block.mask[m]] = kMasked;
      losses_[first_row + begin + i] = softmax(row, n_padded, block.target[begin + i], 1 / rule_.temperature, weight);
    }
    multiply({logits, memory.stride, 1}, padded, {memory.columns.data(), block.n_columns, d_}, scratch.data(), d_);
    for (std::size_t i = 0; i < n; ++i) pull_back(block.first_text + begin + i, scratch.data() + i * d_);
  }

  // Gradients of some columns.
  void pull_columns(const Batch& batch, std::size_t item, std::vector<float>& scratch, std::vector<float>& packed) {
    const auto [b, begin] = find_item(batch, &Block::n_columns, item);
    const Block& block = batch.blocks[b];
    BlockMemory& memory = blocks_[b];
    const std::size_t n = std::min(kChunk, block.n_columns - begin), padded = round_up(n, kTileRows);
    packed.resize(block.n_rows * kChunk);
    for (std::size_t row = 0; row < block.n_rows; ++row)
      std::copy_n(memory.logits.data() + row * memory.stride + begin, padded, packed.data() + row * kChunk);
    multiply({packed.data(), 1, kChunk}, padded, {memory.rows.data(), block.n_rows, d_}, scratch.data(), d_);
    for (std::size_t i = 0; i < n; ++i)
      pull_back(block.first_text + block.n_rows + begin + i, scratch.data() + i * d_);
  }

  // From the gradient of a unit vector to that of the sum of its embeddings.
  void pull_back(std::size_t text, const float* gradient) {
    pull_through_length(vectors_.data() + text * d_, gradient, scales_[text], d_, gradients_.data() + text * d_);
  }

  void update(const Batch& batch, std::size_t item, std::size_t step, std::vector<float>& scratch) {
    const float rate = rule_.learning_rate * half_cosine(step, steps_.n_steps);
    const std::size_t end = std::min(batch.features.size(), (item + 1) * kFeatures);
    for (std::size_t slot = item * kFeatures; slot < end; ++slot) {
      const std::uint32_t first = batch.feature_begin[slot], n = batch.feature_begin[slot + 1] - first;
      const auto feature = static_cast<std::size_t>(batch.features[slot]);
      if (slot + 2 < end) prefetch_row(table_.data() + static_cast<std::size_t>(batch.features[slot + 2]) * d_, d_);
      add_rows(gradients_.data(), d_, batch.feature_texts.data() + first, n, scratch.data());
      step_row(scratch.data(), d_, rate, table_.data() + feature * d_, squares_[feature]);
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
