#include "tower_batch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "seeds.hpp"

namespace matchset {
namespace {

// A query with more positives than this many times the columns looks each column up among them instead.
constexpr std::size_t kManyPositives = 16;

std::size_t checked(std::int32_t id, std::size_t n, const char* what) {
  if (id < 0 || static_cast<std::size_t>(id) >= n)
    throw std::invalid_argument(std::string(what) + " must be below " + std::to_string(n) + "; got " +
                                std::to_string(id));
  return static_cast<std::size_t>(id);
}

}  // namespace

Batch::Batch(const TowerData& data, const TowerRule& rule)
    : data_(data), rule_(rule), slot_of_(data.n_features), column_of_(data.titles.size()) {}

std::size_t Batch::n_rows() const {
  std::size_t n = 0;
  for (const Block& block : blocks) n += block.n_rows;
  return n;
}

void Batch::take(std::span<const std::int32_t> pairs, std::uint64_t step) {
  text_begin.assign(1, 0);
  text_features.clear();
  products_.clear();
  for (const std::int32_t pair : pairs) {
    const std::int32_t product = data_.product[checked(pair, data_.product.size(), "a pair")];
    checked(product, data_.titles.size(), "a product");
    products_.push_back(product);
  }
  const auto n = static_cast<std::uint32_t>(pairs.size());
  const bool with_titles = rule_.title_share > 0;
  blocks.assign(with_titles && rule_.title_mode != 0 ? 2 : 1, {});
  Block& first = blocks[0];
  number_columns(products_);
  first.mask_begin.assign(1, 0);
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto query = static_cast<std::size_t>(data_.query[static_cast<std::size_t>(pairs[i])]);
    add_text(data_.queries[query]);
    first.target.push_back(i);
    add_mask(first, data_.positives[query], i);
  }
  if (with_titles && rule_.title_mode == 0)
    for (std::uint32_t i = 0; i < n; ++i) {
      add_part(data_.titles[static_cast<std::size_t>(products_[i])], step << 32 | i);
      first.target.push_back(i);
      add_mask(first, std::span(&products_[i], 1), i);
    }
  forget_columns(products_);
  first.n_rows = first.target.size();
  first.n_columns = n;
  for (const std::int32_t product : products_) add_text(data_.titles[static_cast<std::size_t>(product)]);
  if (blocks.size() == 2) {
    Block& second = blocks[1];
    second.first_text = n_texts();
    second.mask_begin.assign(1, 0);
    Draws draws(rule_.seed, step << 32 | 0xFFFFFFFFU);
    drawn_.clear();
    while (drawn_.size() < n) {
      const auto product = static_cast<std::int32_t>(draws.below(static_cast<std::uint32_t>(data_.titles.size())));
      if (!data_.titles[static_cast<std::size_t>(product)].empty()) drawn_.push_back(product);
    }
    number_columns(drawn_);
    for (std::uint32_t i = 0; i < n; ++i) {
      add_part(data_.titles[static_cast<std::size_t>(drawn_[i])], step << 32 | i);
      second.target.push_back(i);
      add_mask(second, std::span(&drawn_[i], 1), i);
    }
    forget_columns(drawn_);
    second.n_rows = second.n_columns = n;
    for (const std::int32_t product : drawn_) add_text(data_.titles[static_cast<std::size_t>(product)]);
  }
  transpose();
}

void Batch::add_text(std::span<const std::int32_t> some) {
  for (const std::int32_t feature : some) checked(feature, data_.n_features, "a feature");
  text_features.insert(text_features.end(), some.begin(), some.end());
  text_begin.push_back(static_cast<std::uint32_t>(text_features.size()));
}

// A random share of a text, at least one of its features, in their order.
void Batch::add_part(std::span<const std::int32_t> some, std::uint64_t place) {
  Draws draws(rule_.seed, place);
  const auto n = static_cast<std::uint32_t>(some.size());
  const float wanted = rule_.title_share * static_cast<float>(n) + 0.5F;
  std::uint32_t n_wanted = std::min(n, std::max(1U, static_cast<std::uint32_t>(wanted)));
  for (std::uint32_t i = 0; i < n && n_wanted > 0; ++i) {
    if (draws.below(n - i) >= n_wanted) continue;
    checked(some[i], data_.n_features, "a feature");
    text_features.push_back(some[i]);
    --n_wanted;
  }
  text_begin.push_back(static_cast<std::uint32_t>(text_features.size()));
}

// Columns of `products` other than the target are neither right nor wrong.
void Batch::add_mask(Block& block, std::span<const std::int32_t> products, std::uint32_t target) {
  const auto add_columns = [&](std::size_t product) {
    for (std::uint32_t column = column_of_[product]; column != 0; column = previous_[column - 1])
      if (column - 1 != target) block.mask.push_back(column - 1);
  };
  if (products.size() <= kManyPositives * products_.size()) {
    for (const std::int32_t product : products) add_columns(checked(product, column_of_.size(), "a positive"));
  } else {
    for (std::uint32_t column = 0; column < products_.size(); ++column)
      if (column != target && std::ranges::binary_search(products, products_[column])) block.mask.push_back(column);
  }
  block.mask_begin.push_back(static_cast<std::uint32_t>(block.mask.size()));
}

void Batch::number_columns(std::span<const std::int32_t> products) {
  previous_.assign(products.size(), 0);
  for (std::size_t column = 0; column < products.size(); ++column) {
    std::uint32_t& last = column_of_[static_cast<std::size_t>(products[column])];
    previous_[column] = last;
    last = static_cast<std::uint32_t>(column) + 1;
  }
}

void Batch::forget_columns(std::span<const std::int32_t> products) {
  for (const std::int32_t product : products) column_of_[static_cast<std::size_t>(product)] = 0;
}

// Texts of each distinct feature: features are numbered as they come, counted, then filled in.
void Batch::transpose() {
  features.clear();
  feature_begin.assign(1, 0);
  slots_.resize(text_features.size());
  for (std::size_t entry = 0; entry < text_features.size(); ++entry) {
    std::uint32_t& slot = slot_of_[static_cast<std::size_t>(text_features[entry])];
    if (slot == 0) {
      features.push_back(text_features[entry]);
      feature_begin.push_back(0);
      slot = static_cast<std::uint32_t>(features.size());
    }
    slots_[entry] = slot - 1;
    ++feature_begin[slot];
  }
  for (std::size_t slot = 0; slot < features.size(); ++slot) feature_begin[slot + 1] += feature_begin[slot];
  feature_texts.resize(text_features.size());
  for (std::uint32_t text = 0; text < n_texts(); ++text)
    for (std::uint32_t entry = text_begin[text]; entry < text_begin[text + 1]; ++entry)
      feature_texts[feature_begin[slots_[entry]]++] = text;
  // Each begin has moved to its end: one place back.
  for (std::size_t slot = features.size(); slot > 0; --slot) feature_begin[slot] = feature_begin[slot - 1];
  feature_begin[0] = 0;
  for (const std::int32_t feature : features) slot_of_[static_cast<std::size_t>(feature)] = 0;
}

}  // namespace matchset
