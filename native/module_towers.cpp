// Bindings of the two towers: arguments are checked here or when touched, the GIL is released.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bound_csr.hpp"
#include "towers.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using matchset::In;
using matchset::InOut;
using matchset::Lists;
using matchset::Out;
using matchset::to_lists;
using matchset::to_numpy;
using matchset::to_span;

namespace {

void check(bool is_right, const std::string& rule, std::size_t found) {
  if (!is_right) throw std::invalid_argument(rule + "; got " + std::to_string(found));
}

void check_dimensions(std::size_t dimensions, std::size_t n_values) {
  check(dimensions > 0 && dimensions % 16 == 0, "dimensions must be a positive multiple of 16", dimensions);
  check(n_values % dimensions == 0, "vectors must have " + std::to_string(dimensions) + " values each", n_values);
}

matchset::ListsView view(const Lists& lists) { return to_lists(std::get<0>(lists), std::get<1>(lists)); }

void init_table(const InOut<float>& table, std::size_t dimensions, std::uint64_t seed, unsigned threads) {
  check_dimensions(dimensions, table.size());
  nb::gil_scoped_release release;
  matchset::init_table({table.data(), table.size()}, dimensions, seed, threads);
}

Out<float> train_towers(const Lists& queries, const Lists& titles, const Lists& positives,
                        const std::tuple<In<std::int32_t>, In<std::int32_t>>& pairs, const In<std::int32_t>& titled,
                        const In<std::int32_t>& order, const InOut<float>& table, const InOut<float>& squares, const matchset::TowerRule& rule,
                        std::size_t n_batches, std::size_t begin, std::size_t end, std::size_t first_step,
                        std::size_t n_steps, unsigned threads) {
  const auto& [query, product] = pairs;
  check_dimensions(rule.dimensions, table.size());
  check(squares.size() == table.size() / rule.dimensions, "there must be one square per row of the table", squares.size());
  check(query.size() == product.size(), "there must be as many products as queries in pairs", product.size());
  check(n_batches > 0 && n_batches <= order.size(), "n_batches must be from 1 to the number of pairs", n_batches);
  check(end <= n_batches, "end must be at most n_batches", end);
  check(order.size() / n_batches < (std::size_t{1} << 20), "a batch must have less than a million pairs", order.size());
  check(rule.title_rows >= 0 && rule.title_rows <= 16, "title_rows must be from 0 to 16", 0);
  const matchset::TowerData data{view(queries),    view(titles),    view(positives), to_span(query),
                                 to_span(product), to_span(titled), squares.size()};
  check(data.positives.size() == data.queries.size(), "positives must have a row per query", data.positives.size());
  std::vector<float> losses;
  {
    nb::gil_scoped_release release;
    losses = matchset::train_towers(data, rule, {to_span(order), n_batches, begin, end, first_step, n_steps},
                                    {table.data(), table.size()}, {squares.data(), squares.size()}, threads);
  }
  return to_numpy<float>(std::move(losses));
}

}  // namespace

void bind_towers(nb::module_& m) {
  nb::class_<matchset::TowerRule>(m, "TowerRule", "How the two towers learn.")
      .def(
          "__init__",
          [](matchset::TowerRule* self, std::size_t dimensions, float temperature, float title_rows, float title_share,
             float learning_rate, std::uint64_t seed) {
            new (self) matchset::TowerRule{dimensions, temperature, title_rows, title_share, learning_rate, seed};
          },
          nb::kw_only(), "dimensions"_a, "temperature"_a, "title_rows"_a, "title_share"_a, "learning_rate"_a, "seed"_a);
  m.def("init_table", &init_table, "table"_a.noconvert(), nb::kw_only(), "dimensions"_a, "seed"_a, "threads"_a,
        "Fill a table with draws of mean zero, in place.");
  m.def(
      "shuffled",
      [](std::size_t n, std::uint64_t seed, std::uint64_t epoch) {
        return to_numpy<std::int32_t>(matchset::shuffled(n, seed, epoch));
      },
      "n"_a, nb::kw_only(), "seed"_a, "epoch"_a, "Numbers below n in an order by chance.");
  m.def("train_towers", &train_towers, "queries"_a.noconvert(), "titles"_a.noconvert(), "positives"_a.noconvert(),
        "pairs"_a.noconvert(), "titled"_a.noconvert(), "order"_a.noconvert(), "table"_a.noconvert(), "squares"_a.noconvert(), "rule"_a,
        nb::kw_only(), "n_batches"_a, "begin"_a, "end"_a, "first_step"_a, "n_steps"_a, "threads"_a,
        "Train batches begin to end of an epoch, table and squares in place; the mean loss of each.");
}
