// Bindings of the two towers: arguments are checked here or when touched, the GIL is released.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dense_tree.hpp"
#include "inverted_lists.hpp"
#include "module.hpp"
#include "python_arrays.hpp"
#include "python_csr.hpp"
#include "towers.hpp"
#include "vectors.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using matchset::check;
using matchset::In;
using matchset::InOut;
using matchset::Lists;
using matchset::Out;
using matchset::to_lists;
using matchset::to_numpy;
using matchset::to_span;

namespace {

void check_dimensions(std::size_t dimensions, std::size_t n_values) {
  check(dimensions > 0 && dimensions % 16 == 0, "dimensions must be a positive multiple of 16", dimensions);
  check(n_values % dimensions == 0, "vectors must have " + std::to_string(dimensions) + " values each", n_values);
}

matchset::ListsView view(const Lists& lists) { return to_lists(std::get<0>(lists), std::get<1>(lists)); }

void py_init_table(const InOut<float>& table, std::size_t dimensions, std::uint64_t seed, unsigned threads) {
  check_dimensions(dimensions, table.size());
  nb::gil_scoped_release release;
  matchset::init_table({table.data(), table.size()}, dimensions, seed, threads);
}

Out<float> py_train_towers(const Lists& queries, const Lists& titles, const Lists& positives,
                           const std::tuple<In<std::int32_t>, In<std::int32_t>>& pairs, const In<std::int32_t>& titled,
                           const In<std::int32_t>& order, const InOut<float>& table, const InOut<float>& squares,
                           const matchset::TowerRule& rule, std::size_t n_batches, std::size_t begin, std::size_t end,
                           std::size_t first_step, std::size_t n_steps, unsigned threads) {
  const auto& [query, product] = pairs;
  check_dimensions(rule.dimensions, table.size());
  check(squares.size() == table.size() / rule.dimensions, "there must be one square per row of the table",
        squares.size());
  check(query.size() == product.size(), "there must be as many products as queries in pairs", product.size());
  check(n_batches > 0 && n_batches <= order.size(), "n_batches must be from 1 to the number of pairs", n_batches);
  check(end <= n_batches, "end must be at most n_batches", end);
  check(order.size() / n_batches < (std::size_t{1} << 20), "a batch must have less than a million pairs", order.size());
  if (!(rule.title_rows >= 0 && rule.title_rows <= 16))
    throw std::invalid_argument("title_rows must be from 0 to 16; got " + std::to_string(rule.title_rows));
  if (!(rule.title_share >= 0 && rule.title_share <= 1))
    throw std::invalid_argument("title_share must be from 0 to 1; got " + std::to_string(rule.title_share));
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

using Bytes = std::tuple<In<std::int8_t>, In<float>>;  // values, scales

matchset::ByteVectors to_vectors(const Bytes& vectors, std::size_t dimensions) {
  const auto& [values, scales] = vectors;
  check_dimensions(dimensions, values.size());
  check(values.size() / dimensions == scales.size(), "there must be one scale per vector", scales.size());
  return {to_span(values), to_span(scales), dimensions};
}

std::tuple<Out<std::int8_t>, Out<float>> py_quantize(const In<float>& vectors, std::size_t dimensions) {
  check_dimensions(dimensions, vectors.size());
  matchset::Buffer<std::int8_t> values(vectors.size());
  std::vector<float> scales(vectors.size() / dimensions);
  {
    nb::gil_scoped_release release;
    matchset::quantize(to_span(vectors), dimensions, values, scales);
  }
  return {to_numpy<std::int8_t>(std::move(values)), to_numpy<float>(std::move(scales))};
}

Out<float> py_encode_texts(const Lists& texts, const In<std::int32_t>& row_of, const Bytes& table,
                           std::size_t dimensions, unsigned threads) {
  const auto lists = view(texts);
  const auto rows = to_vectors(table, dimensions);
  matchset::Buffer<float> vectors(lists.size() * dimensions);
  {
    nb::gil_scoped_release release;
    matchset::encode_texts(lists, to_span(row_of), rows, vectors, threads);
  }
  return to_numpy<float>(std::move(vectors));
}

Out<std::int32_t> py_order_vectors(const Bytes& vectors, const In<std::int32_t>& splits, std::size_t dimensions,
                                   int max_passes, std::uint64_t seed, unsigned threads) {
  const auto rows = to_vectors(vectors, dimensions);
  for (const std::int32_t split : to_span(splits))
    if (split < 1) throw std::invalid_argument("splits must be positive; got " + std::to_string(split));
  std::vector<std::int32_t> order;
  {
    nb::gil_scoped_release release;
    order = matchset::order_vectors(rows, {to_span(splits), max_passes, seed}, threads);
  }
  return to_numpy<std::int32_t>(std::move(order));
}

Out<float> py_mean_vectors(const Bytes& vectors, const In<std::int64_t>& offsets, std::size_t dimensions,
                           unsigned threads) {
  const auto rows = to_vectors(vectors, dimensions);
  std::vector<float> means;
  {
    nb::gil_scoped_release release;
    means = matchset::mean_vectors(rows, to_span(offsets), threads);
  }
  return to_numpy<float>(std::move(means));
}

using Offsets = In<std::int64_t>;
using ListsOut = std::tuple<Out<std::int64_t>, Out<std::int32_t>, Out<float>>;

ListsOut py_search_lists(const std::tuple<Offsets, Offsets>& offsets, const std::tuple<Bytes, Bytes, Bytes>& vectors,
                         const In<std::int32_t>& labels, const In<float>& queries, std::size_t dimensions,
                         const In<std::uint8_t>& allowed, std::size_t n_groups, std::size_t n_lists, std::size_t k,
                         unsigned threads) {
  const auto& [groups, clusters, products] = vectors;
  check_dimensions(dimensions, queries.size());
  const matchset::InvertedLists lists{to_span(std::get<0>(offsets)),    to_span(std::get<1>(offsets)),
                                      to_vectors(groups, dimensions),   to_vectors(clusters, dimensions),
                                      to_vectors(products, dimensions), to_span(labels)};
  lists.check();
  std::vector<std::int64_t> begins{0};
  std::vector<std::int32_t> found;
  std::vector<float> scores;
  {
    nb::gil_scoped_release release;
    const auto rows =
        matchset::search_lists(lists, to_span(queries), {n_groups, n_lists}, k, to_span(allowed), threads);
    for (const auto& row : rows) {
      for (const auto& [label, score] : row) found.push_back(label), scores.push_back(score);
      begins.push_back(static_cast<std::int64_t>(found.size()));
    }
  }
  return {to_numpy<std::int64_t>(std::move(begins)), to_numpy<std::int32_t>(std::move(found)),
          to_numpy<float>(std::move(scores))};
}

Out<std::int32_t> py_assign_clusters(const Bytes& vectors, const Offsets& group_begin, const Bytes& groups,
                                     const Bytes& clusters, std::size_t dimensions, std::size_t n_groups,
                                     unsigned threads) {
  const auto rows = to_vectors(vectors, dimensions), centroids = to_vectors(clusters, dimensions);
  const std::vector<std::int64_t> empty(centroids.size() + 1);
  const matchset::InvertedLists lists{to_span(group_begin), empty, to_vectors(groups, dimensions), centroids,
                                      {{}, {}, dimensions}, {}};
  lists.check();
  std::vector<std::int32_t> nearest;
  {
    nb::gil_scoped_release release;
    nearest = matchset::assign_clusters(lists, rows, n_groups, threads);
  }
  return to_numpy<std::int32_t>(std::move(nearest));
}

Out<std::int32_t> py_assign_near(const Bytes& vectors, const Offsets& begins, std::size_t first,
                                 const Offsets& group_begin, const Bytes& groups, const Bytes& clusters,
                                 std::size_t dimensions, std::size_t n_groups, std::size_t n_near, unsigned threads) {
  const auto rows = to_vectors(vectors, dimensions), centroids = to_vectors(clusters, dimensions);
  const std::vector<std::int64_t> empty(centroids.size() + 1);
  const matchset::InvertedLists lists{to_span(group_begin), empty, to_vectors(groups, dimensions), centroids,
                                      {{}, {}, dimensions}, {}};
  lists.check();
  if (n_groups < 1 || n_near < 1) throw std::invalid_argument("a vector must be compared with at least one cluster");
  std::vector<std::int32_t> nearest;
  {
    nb::gil_scoped_release release;
    nearest = matchset::assign_near(lists, rows, to_span(begins), first, {n_groups, n_near}, threads);
  }
  return to_numpy<std::int32_t>(std::move(nearest));
}

}  // namespace

void matchset::bind_towers(nb::module_& m) {
  nb::class_<matchset::TowerRule>(m, "TowerRule", "How the two towers learn.")
      .def(
          "__init__",
          [](matchset::TowerRule* self, std::size_t dimensions, float temperature, float title_rows, float title_share,
             float learning_rate, std::uint64_t seed) {
            new (self) matchset::TowerRule{dimensions, temperature, title_rows, title_share, learning_rate, seed};
          },
          nb::kw_only(), "dimensions"_a, "temperature"_a, "title_rows"_a, "title_share"_a, "learning_rate"_a, "seed"_a);
  m.def("init_table", &py_init_table, "table"_a.noconvert(), nb::kw_only(), "dimensions"_a, "seed"_a, "threads"_a,
        "Fill a table with draws of mean zero, in place.");
  m.def(
      "shuffled",
      [](std::size_t n, std::uint64_t seed, std::uint64_t epoch) {
        return to_numpy<std::int32_t>(matchset::shuffled(n, seed, epoch));
      },
      "n"_a, nb::kw_only(), "seed"_a, "epoch"_a, "Numbers below n in an order by chance.");
  m.def("train_towers", &py_train_towers, "queries"_a.noconvert(), "titles"_a.noconvert(), "positives"_a.noconvert(),
        "pairs"_a.noconvert(), "titled"_a.noconvert(), "order"_a.noconvert(), "table"_a.noconvert(),
        "squares"_a.noconvert(), "rule"_a, nb::kw_only(), "n_batches"_a, "begin"_a, "end"_a, "first_step"_a,
        "n_steps"_a, "threads"_a,
        "Train batches begin to end of an epoch, table and squares in place; the mean loss of each.");
  m.def("quantize", &py_quantize, "vectors"_a.noconvert(), nb::kw_only(), "dimensions"_a,
        "Vectors as bytes and a scale for each.");
  m.def("encode_texts", &py_encode_texts, "texts"_a.noconvert(), "row_of"_a.noconvert(), "table"_a.noconvert(),
        nb::kw_only(), "dimensions"_a, "threads"_a,
        "Mean of the embeddings of each text's features, of length one; zero where it has none.");
  m.def("order_vectors", &py_order_vectors, "vectors"_a.noconvert(), "splits"_a.noconvert(), nb::kw_only(),
        "dimensions"_a, "max_passes"_a, "seed"_a, "threads"_a,
        "Vectors in an order in which every cluster is a range.");
  m.def("mean_vectors", &py_mean_vectors, "vectors"_a.noconvert(), "offsets"_a.noconvert(), nb::kw_only(),
        "dimensions"_a, "threads"_a, "Mean of each range of vectors, of length one.");
  m.def("assign_clusters", &py_assign_clusters, "vectors"_a.noconvert(), "group_offsets"_a.noconvert(),
        "groups"_a.noconvert(), "clusters"_a.noconvert(), nb::kw_only(), "dimensions"_a, "n_groups"_a, "threads"_a,
        "The nearest cluster of each vector, found in its nearest groups.");
  m.def("assign_near", &py_assign_near, "vectors"_a.noconvert(), "begins"_a.noconvert(), "first"_a,
        "group_offsets"_a.noconvert(), "groups"_a.noconvert(), "clusters"_a.noconvert(), nb::kw_only(), "dimensions"_a,
        "n_groups"_a, "n_near"_a, "threads"_a,
        "The nearest cluster of each vector among those near its own; vectors are in the order of their clusters.");
  m.def("search_lists", &py_search_lists, "offsets"_a.noconvert(), "vectors"_a.noconvert(), "labels"_a.noconvert(),
        "queries"_a.noconvert(), nb::kw_only(), "dimensions"_a, "allowed"_a.noconvert(), "n_groups"_a, "n_lists"_a,
        "k"_a, "threads"_a, "The k nearest products in the clusters nearest to each query: offsets, labels, cosines.");
}
