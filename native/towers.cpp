#include "towers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cosines.hpp"
#include "crew.hpp"
#include "dense.hpp"
#include "rng.hpp"
#include "threads.hpp"
#include "tower_kernels.hpp"

namespace matchset {
namespace {

constexpr std::size_t kTexts = 16;      // per item of work
constexpr std::size_t kRows = 16;       // per item of work
constexpr std::size_t kColumns = 64;    // per item of work
constexpr std::size_t kFeatures = 128;  // per item of work
// Of chance, below which a probability is zero. Nearly all are, and a step takes half the time; recall of the towers
// stays the same (a shop of 20,000 products 68.4/95.9/98.6 and 68.3/95.9/98.6 with a tenth, on validation queries).
constexpr float kLeastShare = 0.2F;

constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }
constexpr std::size_t count_chunks(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit; }

// What the gradient of a cosine makes of its row and column.
struct Pull {
  std::uint32_t row, column;
  float weight;
};

// What a step computes for one block of the batch.
struct BlockMemory {
  BlockMemory(std::size_t max_size, std::size_t d) : columns(max_size, d), pulls(count_chunks(max_size, kRows)) {
    for (auto& of_columns : pulls) of_columns.resize(count_chunks(max_size, kColumns));
  }

  CosineColumns columns;
  std::vector<std::vector<std::vector<Pull>>> pulls;  // by chunk of rows and chunk of columns, row after row
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
    vectors_.resize(2 * n_rows * d_);
    scales_.resize(2 * n_rows);
    bytes_.resize(2 * n_rows * d_);
    byte_scales_.resize(2 * n_rows);
    gradients_.resize(2 * n_rows * d_);
    losses_.resize(n_rows);
  }

  std::vector<float> run(unsigned n_threads) {
    mean_losses_.clear();
    Crew crew(n_threads);
    crew.run([&](unsigned) { train(crew); });
    return std::move(mean_losses_);
  }

 private:
  struct Scratch {
    std::vector<float> logits;  // cosines, then the gradient for each, of kRows rows
    std::vector<float> sum;     // (d,)
    std::vector<WeightedRow> found;
    std::vector<WeightedRow> of_columns[kColumns];
  };

  // What every member of the crew does.
  void train(Crew& crew) {
    Scratch scratch{{}, std::vector<float>(d_), {}, {}};
    bool is_going = crew.each(1, [&](std::size_t) { take_batch(steps_.begin); });
    for (std::size_t at = steps_.begin; is_going && at < steps_.end; ++at) is_going = train_batch(crew, at, scratch);
  }

  bool train_batch(Crew& crew, std::size_t at, Scratch& scratch) {
    const Batch& batch = batches_[at % 2];
    const std::size_t n_rows = count_chunks(batch.blocks[0].size, kRows);
    const std::size_t n_columns = count_chunks(batch.blocks[0].size, kColumns);
    return crew.each(count_chunks(batch.n_texts(), kTexts), [&](std::size_t item) {
      encode(batch, item);
    }) && crew.each(n_rows + count_chunks(batch.blocks[1].size, kRows) + 1, [&](std::size_t item) {
      if (item > n_rows) return compare_rows(batch, 1, item - 1 - n_rows, scratch);
      if (item > 0) return compare_rows(batch, 0, item - 1, scratch);
      if (at + 1 < steps_.end) take_batch(at + 1);  // meanwhile
    }) && crew.each(n_columns + count_chunks(batch.blocks[1].size, kColumns), [&](std::size_t item) {
      if (item < n_columns) return pull_columns(batch, 0, item, scratch);
      pull_columns(batch, 1, item - n_columns, scratch);
    }) && crew.each(count_chunks(batch.features.size(), kFeatures) + 1, [&](std::size_t item) {
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
      const std::span vector(vectors_.data() + text * d_, d_);
      const std::uint32_t begin = batch.text_begin[text], size = batch.text_begin[text + 1] - begin;
      scales_[text] = mean_of_rows(table_.data(), d_, batch.text_features.data() + begin, size, vector.data());
      quantize(vector, d_, {bytes_.data() + text * d_, d_}, {&byte_scales_[text], 1});
      const std::size_t b = text >= batch.blocks[1].first_text ? 1 : 0;
      const std::size_t row = text - batch.blocks[b].first_text, size_of_block = batch.blocks[b].size;
      if (row >= size_of_block) blocks_[b].columns.set(row - size_of_block, bytes_.data() + text * d_);
    }
  }

  // Vectors as cosines see them.
  ByteVectors texts(std::size_t begin, std::size_t n) const {
    return {{bytes_.data() + begin * d_, n * d_}, {byte_scales_.data() + begin, n}, d_};
  }

  // Cosines of some rows with all columns, the loss, and the gradients of the cosines and of the rows.
  void compare_rows(const Batch& batch, std::size_t b, std::size_t item, Scratch& scratch) {
    const Block& block = batch.blocks[b];
    const std::size_t begin = item * kRows, n = std::min(kRows, block.size - begin);
    const std::size_t first_text = block.first_text + begin, width = round_up(block.size, kLanes);
    const ByteVectors columns = texts(block.first_text + block.size, block.size);
    scratch.logits.resize(kRows * width);
    find_cosines(texts(first_text, n), columns, blocks_[b].columns, scratch.logits.data(), width);
    const SoftmaxRule softmax_rule{1 / rule_.temperature, kLeastShare / static_cast<float>(block.size),
                                   1 / (rule_.temperature * static_cast<float>(batch.n_rows()))};
    const std::size_t first_loss = begin + (b == 0 ? 0 : batch.blocks[0].size);
    auto& pulls = blocks_[b].pulls[item];
    for (auto& of_columns : pulls) of_columns.clear();
    for (std::size_t i = 0; i < n; ++i) {
      float* logits = scratch.logits.data() + i * width;
      std::fill(logits + block.size, logits + width, kMasked);
      for (std::uint32_t m = block.mask_begin[begin + i]; m < block.mask_begin[begin + i + 1]; ++m)
        logits[block.mask[m]] = kMasked;
      losses_[first_loss + i] = softmax(logits, width, begin + i, softmax_rule);
      find_nonzero(logits, width, scratch.found);
      for (const auto& [column, weight] : scratch.found)
        pulls[column / kColumns].push_back({static_cast<std::uint32_t>(begin + i), column, weight});
      add_weighted(columns, scratch.found, scratch.sum.data());
      pull_back(first_text + i, scratch.sum.data());
    }
  }

  // Gradients of some columns.
  void pull_columns(const Batch& batch, std::size_t b, std::size_t item, Scratch& scratch) {
    const Block& block = batch.blocks[b];
    const std::size_t begin = item * kColumns, n = std::min(kColumns, block.size - begin);
    for (auto& rows : scratch.of_columns) rows.clear();
    for (const auto& of_rows : blocks_[b].pulls)
      for (const Pull& pull : of_rows[item]) scratch.of_columns[pull.column - begin].push_back({pull.row, pull.weight});
    for (std::size_t i = 0; i < n; ++i) {
      add_weighted(texts(block.first_text, block.size), scratch.of_columns[i], scratch.sum.data());
      pull_back(block.first_text + block.size + begin + i, scratch.sum.data());
    }
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
      add_rows(gradients_.data(), d_, batch.feature_texts.data() + first, n, scratch.sum.data());
      step_row(scratch.sum.data(), d_, rate, table_.data() + feature * d_, squares_[feature]);
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
  std::vector<std::int8_t> bytes_;          // vectors_ in steps, for cosines
  std::vector<float> byte_scales_;          // of the texts
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
