// Bindings of the rows of a log and their sums.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "log_select.hpp"
#include "log_sums.hpp"
#include "module.hpp"
#include "python_arrays.hpp"

namespace matchset {
namespace {

RowWeights to_weights(const In<std::uint8_t>& events, const In<double>& counts, const In<double>& of_event) {
  RowWeights weights{to_span(events), to_span(counts)};
  if (of_event.size() > weights.of_event.size()) throw std::invalid_argument("at most 256 events can have a weight");
  std::copy_n(of_event.data(), of_event.size(), weights.of_event.begin());
  return weights;
}

void check_rows(std::size_t n, std::initializer_list<std::size_t> sizes) {
  if (std::any_of(sizes.begin(), sizes.end(), [&](std::size_t size) { return size != n; }))
    throw std::invalid_argument("columns of a log must be of one length");
}

std::tuple<Out<std::int64_t>, Out<double>, std::int64_t> py_sum_pairs(
    const In<std::int32_t>& query, const In<std::int32_t>& product, const In<std::uint8_t>& event,
    const In<double>& count, const In<double>& of_event, double least, unsigned threads) {
  check_rows(query.size(), {product.size(), event.size(), count.size()});
  const RowWeights weights = to_weights(event, count, of_event);
  PairSums found = without_gil([&] { return sum_pairs(to_span(query), to_span(product), weights, least, threads); });
  return {to_numpy<std::int64_t>(std::move(found.rows)), to_numpy<double>(std::move(found.sums)), found.n_counted};
}

Out<double> py_sum_queries(const In<std::int32_t>& query, std::size_t size, const In<std::uint8_t>& event,
                           const In<double>& count, const In<double>& of_event, unsigned threads) {
  check_rows(query.size(), {event.size(), count.size()});
  const RowWeights weights = to_weights(event, count, of_event);
  return to_numpy<double>(without_gil([&] { return sum_queries(to_span(query), size, weights, threads); }));
}

Out<double> py_sum_products(const In<std::int32_t>& product, std::size_t size, const In<std::uint8_t>& event,
                            const In<double>& count, const In<double>& of_event, const In<std::int32_t>& day,
                            const In<double>& of_day, std::int32_t first_day, unsigned threads) {
  check_rows(product.size(), {event.size(), count.size(), day.size()});
  RowWeights weights = to_weights(event, count, of_event);
  weights.days = to_span(day), weights.of_day = to_span(of_day), weights.first_day = first_day;
  return to_numpy<double>(without_gil([&] { return sum_products(to_span(product), size, weights, threads); }));
}

std::optional<std::pair<std::int32_t, std::int32_t>> py_find_days(const In<std::int32_t>& days, std::int32_t no_day,
                                                                  std::size_t one_in, unsigned threads) {
  if (one_in < 2) throw std::invalid_argument("one_in must be at least 2");
  return without_gil([&] { return find_days(to_span(days), no_day, one_in, threads); });
}

using Columns = std::tuple<In<std::int32_t>, In<std::int32_t>, In<std::uint8_t>, In<std::int32_t>, In<double>>;
using Selected = std::tuple<Out<std::int64_t>, Out<std::int64_t>, Out<std::int32_t>, Out<std::int32_t>,
                            Out<std::uint8_t>, Out<std::int32_t>, Out<double>>;

Selected py_select_rows(const Columns& log, const In<std::uint8_t>& is_selected, std::size_t n_queries,
                        std::size_t n_products, unsigned threads) {
  const auto& [query, product, event, day, count] = log;
  check_rows(is_selected.size(), {query.size(), product.size(), event.size(), day.size(), count.size()});
  const LogColumns columns{to_span(query), to_span(product), to_span(event), to_span(day), to_span(count)};
  SelectedRows rows =
      without_gil([&] { return select_rows(columns, to_span(is_selected), n_queries, n_products, threads); });
  return {to_numpy<std::int64_t>(std::move(rows.queries)), to_numpy<std::int64_t>(std::move(rows.products)),
          to_numpy<std::int32_t>(std::move(rows.query)),   to_numpy<std::int32_t>(std::move(rows.product)),
          to_numpy<std::uint8_t>(std::move(rows.event)),   to_numpy<std::int32_t>(std::move(rows.day)),
          to_numpy<double>(std::move(rows.count))};
}

}  // namespace

void bind_log(nb::module_& m) {
  m.def("select_rows", &py_select_rows, "log"_a.noconvert(), "is_selected"_a.noconvert(), "n_queries"_a, "n_products"_a,
        "threads"_a,
        "The marked rows of query, product, event, day and count: the queries and products that occur, then the "
        "columns, numbered anew.");
  m.def("sum_pairs", &py_sum_pairs, "query"_a.noconvert(), "product"_a.noconvert(), "event"_a.noconvert(),
        "count"_a.noconvert(), "of_event"_a.noconvert(), "least"_a, "threads"_a,
        "Pairs of sorted rows that weigh at least so much: the first row and the weight of each, and the number of "
        "pairs that weigh anything.");
  m.def("sum_queries", &py_sum_queries, "query"_a.noconvert(), "size"_a, "event"_a.noconvert(), "count"_a.noconvert(),
        "of_event"_a.noconvert(), "threads"_a, "What the rows of each query weigh; they are sorted by query.");
  m.def("sum_products", &py_sum_products, "product"_a.noconvert(), "size"_a, "event"_a.noconvert(),
        "count"_a.noconvert(), "of_event"_a.noconvert(), "day"_a.noconvert(), "of_day"_a.noconvert(), "first_day"_a,
        "threads"_a, "What the rows of each product weigh, also by their day, counted from `first_day`.");
  m.def("find_days", &py_find_days, "days"_a.noconvert(), "no_day"_a, "one_in"_a, "threads"_a,
        "The first day and the last one, but for one row in so many; None where every day is `no_day`.");
}

}  // namespace matchset
