#include "tower_batch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

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
    : data_(data), rule_(rule), column_of_(data.titles.size()), slot_of_(data.n_features) {}

std::size_t Batch::count_titles(const TowerData& data, const TowerRule& rule, std::size_t n_pairs) {
  return data.titled.empty() ? 0 : static_cast<std::size_t>(rule.title_rows * static_cast<float>(n_pairs));
}

void Batch::take(std::span<const std::int32_t> pairs, std::uint64_t step) {
  text_begin.assign(1, 0);
  text_features.clear();
  take_pairs(pairs);
  take_titles(count_titles(data_, rule_, pairs.size()), step);
  transpose();
}

void Batch::take_pairs(std::span<const std::int32_t> pairs) {
  products_.clear();
  for (const std::int32_t pair : pairs)
    products_.push_back(data_.product[checked(pair, data_.product.size(), "a pair")]);
  number_columns();
  blocks[0] = {pairs.size(), 0, {0}, {}};
  for (const std::int32_t pair : pairs) {
    const std::size_t query = checked(data_.query[static_cast<std::size_t>(pair)], data_.queries.size(), "a query");
    add_text(data_.queries[query]);
    add_mask(blocks[0], data_.positives[query]);
  }
  add_columns();
}

void Batch::take_titles(std::size_t n_titles, std::uint64_t step) {
  Draws draws(rule_.seed, step | std::uint64_t{1} << 63);  // apart from the draws of the table
  products_.clear();
  for (std::size_t i = 0; i < n_titles; ++i)
    products_.push_back(data_.titled[draws.below(static_cast<std::uint32_t>(data_.titled.size()))]);
  number_columns();
  blocks[1] = {n_titles, n_texts(), {0}, {}};
  for (const std::int32_t& product : products_) {
    add_part(data_.titles[static_cast<std::size_t>(product)], Draws(draws.next()));
    add_mask(blocks[1], {&product, 1});
  }
  add_columns();
}

void Batch::add_text(std::span<const std::int32_t> some) {
  for (const std::int32_t feature : some) checked(feature, data_.n_features, "a feature");
  text_features.insert(text_features.end(), some.begin(), some.end());
  text_begin.push_back(static_cast<std::uint32_t>(text_features.size()));
}

// A random share of a text, at least one of its features, in their order.
void Batch::add_part(std::span<const std::int32_t> some, Draws draws) {
  const auto n = static_cast<std::uint32_t>(some.size());
  const auto share = static_cast<std::uint32_t>(rule_.title_share * static_cast<float>(n) + 0.5F);
  std::uint32_t n_wanted = std::min(n, std::max(1U, share));
  for (std::uint32_t i = 0; n_wanted > 0; ++i) {
    if (draws.below(n - i) >= n_wanted) continue;
    checked(some[i], data_.n_features, "a feature");
    text_features.push_back(some[i]);
    --n_wanted;
  }
  text_begin.push_back(static_cast<std::uint32_t>(text_features.size()));
}

// Titles of the products, whose numbers are forgotten.
void Batch::add_columns() {
  for (const std::int32_t product : products_) {
    add_text(data_.titles[static_cast<std::size_t>(product)]);
    column_of_[static_cast<std::size_t>(product)] = 0;
  }
}

// For the next row: columns of `products`, ascending, other than its own are neither right nor wrong.
void Batch::add_mask(Block& block, std::span<const std::int32_t> products) {
  const auto own = static_cast<std::uint32_t>(block.mask_begin.size() - 1);
  if (products.size() <= kManyPositives * products_.size()) {
    for (const std::int32_t product : products)
      for (std::uint32_t column = column_of_[checked(product, column_of_.size(), "a positive")]; column != 0;
           column = previous_[column - 1])
        if (column - 1 != own) block.mask.push_back(column - 1);
  } else {
    for (std::uint32_t column = 0; column < products_.size(); ++column)
      if (column != own && std::ranges::binary_search(products, products_[column])) block.mask.push_back(column);
  }
  block.mask_begin.push_back(static_cast<std::uint32_t>(block.mask.size()));
}

void Batch::number_columns() {
  previous_.assign(products_.size(), 0);
  for (std::size_t column = 0; column < products_.size(); ++column) {
    std::uint32_t& last = column_of_[checked(products_[column], column_of_.size(), "a product")];
    previous_[column] = std::exchange(last, static_cast<std::uint32_t>(column) + 1);
  }
}

// Texts of each distinct feature: features are numbered as they come, counted, then filled in.
void Batch::transpose() {
  const std::size_t n_entries = text_features.size();
  features.clear();
  feature_begin.assign(1, 0);
  slots_.resize(n_entries);
  for (std::size_t entry = 0; entry < n_entries; ++entry) {
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
  feature_texts.assign(n_entries + kReadAhead, 0);
  for (std::uint32_t text = 0; text < n_texts(); ++text)
    for (std::uint32_t entry = text_begin[text]; entry < text_begin[text + 1]; ++entry)
      feature_texts[feature_begin[slots_[entry]]++] = text;
  // Each begin has moved to its end: one place back.
  for (std::size_t slot = features.size(); slot > 0; --slot) feature_begin[slot] = feature_begin[slot - 1];
  feature_begin[0] = 0;
  for (const std::int32_t feature : features) slot_of_[static_cast<std::size_t>(feature)] = 0;
  text_features.resize(n_entries + kReadAhead);  // row 0 is there whenever an entry is
}

}  // namespace matchset
