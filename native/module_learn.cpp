// Bindings of the learning kernels.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "layer.hpp"
#include "module.hpp"
#include "pifa.hpp"
#include "python_arrays.hpp"
#include "python_csr.hpp"
#include "tree.hpp"

namespace matchset {
namespace {

// features of each parent, features, entries of each feature, children, weights, bias, unfinished
using LayerOut = std::tuple<Out<std::int64_t>, Out<std::int32_t>, Out<std::int32_t>, Out<std::uint16_t>, Out<float>,
                            Out<float>, std::int64_t>;

CsrOut py_sum_instances(const Csr& X, std::int64_t n_features, const Csr& instances, std::size_t max_entries,
                        unsigned threads) {
  const auto x = to_csr(X, n_features);
  const auto lists = to_csr(instances, static_cast<std::int64_t>(x.n_rows()));
  OwnedCsr sums = without_gil([&] { return sum_instances(x, lists, max_entries, threads); });
  return {to_numpy<std::int64_t>(std::move(sums.offsets)), to_numpy<std::int32_t>(std::move(sums.columns)),
          to_numpy<float>(std::move(sums.values))};
}

TreePlan to_plan(const In<std::int32_t>& splits, int max_iter, std::uint64_t seed) {
  for (const std::int32_t split : to_span(splits))
    if (split < 1) throw std::invalid_argument("splits must be positive; got " + std::to_string(split));
  return {to_span(splits), max_iter, seed};
}

using SubtreeIn = std::tuple<std::size_t, std::size_t, std::uint32_t>;  // begin, level, parts

Out<std::int32_t> py_order_labels(const Csr& Z, std::int64_t n_features, const In<std::int32_t>& splits,
                                  const std::optional<SubtreeIn>& subtree, int max_iter, std::uint64_t seed,
                                  unsigned threads) {
  const auto z = to_csr(Z, n_features);
  const TreePlan plan = to_plan(splits, max_iter, seed);
  Subtree root = whole_tree(z, plan);
  if (subtree) root = {std::get<0>(*subtree), std::get<1>(*subtree), std::get<2>(*subtree)};
  if (root.n_parts > std::max<std::size_t>(1, z.n_rows()))  // one part may be empty
    throw std::invalid_argument("a subtree must have a label for each part; got " + std::to_string(z.n_rows()) +
                                " for " + std::to_string(root.n_parts));
  return to_numpy<std::int32_t>(without_gil([&] { return order_labels(z, plan, root, threads); }));
}

std::tuple<Out<std::int32_t>, std::vector<SubtreeIn>> py_cut_top(const Csr& Z, std::int64_t n_features,
                                                                 const In<std::int32_t>& splits, std::size_t most,
                                                                 std::size_t n_sampled, int max_iter,
                                                                 std::uint64_t seed, unsigned threads) {
  const auto z = to_csr(Z, n_features);
  const TreePlan plan = to_plan(splits, max_iter, seed);
  if (most < 1 || n_sampled < 2)
    throw std::invalid_argument("a subtree must have a label and a sample two; got " + std::to_string(most) + " and " +
                                std::to_string(n_sampled));
  TreeTop top = without_gil([&] { return cut_top(z, plan, most, n_sampled, threads); });
  std::vector<SubtreeIn> found;
  for (const Subtree& one : top.subtrees) found.emplace_back(one.begin, one.level, one.n_parts);
  return {to_numpy<std::int32_t>(std::move(top.order)), std::move(found)};
}

LayerOut py_solve_parents(const Csr& X, std::int64_t n_features, const Lists& instances, const Csr& positives,
                          const In<std::int64_t>& first_child, const SolverRule& rule, const PruneRule& prune,
                          std::size_t first_parent, unsigned threads) {
  const auto& [offsets, rows, weights] = positives;
  if (weights.size() != 0 && weights.size() != rows.size())
    throw std::invalid_argument("there must be one weight per positive or none; got " + std::to_string(weights.size()));
  const LayerProblem problem{to_csr(X, n_features),   to_lists(std::get<0>(instances), std::get<1>(instances)),
                             to_lists(offsets, rows), to_span(weights),
                             to_span(first_child),    first_parent};
  LayerWeights out = without_gil([&] { return solve_parents(problem, rule, prune, threads); });
  return {to_numpy<std::int64_t>(std::move(out.n_features)),
          to_numpy<std::int32_t>(std::move(out.features)),
          to_numpy<std::int32_t>(std::move(out.n_entries)),
          to_numpy<std::uint16_t>(std::move(out.children)),
          to_numpy<float>(std::move(out.weights)),
          to_numpy<float>(std::move(out.bias)),
          out.n_unfinished};
}

}  // namespace

void bind_learn(nb::module_& m) {
  nb::class_<SolverRule>(m, "SolverRule", "How each binary problem is weighted and when its solver stops.")
      .def(nb::init<float, float, float, float, int, std::uint64_t>(), nb::kw_only(), "positive_cost"_a,
           "negative_cost"_a, "bias"_a, "tol"_a, "max_iter"_a, "seed"_a);
  nb::class_<PruneRule>(m, "PruneRule", "Which weights of a child are kept.")
      .def(nb::init<float, std::size_t>(), nb::kw_only(), "threshold"_a, "max_weights"_a);

  m.def("sum_instances", &py_sum_instances, "X"_a.noconvert(), "n_features"_a, "instances"_a.noconvert(), nb::kw_only(),
        "max_entries"_a, "threads"_a,
        "Sum of the rows of X listed for each label, cut to its largest entries, of length one; as CSR arrays.");
  m.def("order_labels", &py_order_labels, "Z"_a.noconvert(), "n_features"_a, "splits"_a.noconvert(), nb::kw_only(),
        "subtree"_a = nb::none(), "max_iter"_a, "seed"_a, "threads"_a,
        "Labels in an order in which every node of the tree is a range; of a subtree, given by its begin in the order, "
        "its level and its parts, if Z has only its labels.");
  m.def("cut_top", &py_cut_top, "Z"_a.noconvert(), "n_features"_a, "splits"_a.noconvert(), nb::kw_only(), "most"_a,
        "n_sampled"_a, "max_iter"_a, "seed"_a, "threads"_a,
        "Labels in the order of subtrees of at most `most` labels, and those: begin, level and parts of each.");
  m.def("solve_parents", &py_solve_parents, "X"_a.noconvert(), "n_features"_a, "instances"_a.noconvert(),
        "positives"_a.noconvert(), "first_child"_a.noconvert(), "rule"_a, "prune"_a, nb::kw_only(), "first_parent"_a,
        "threads"_a,
        "Weights of the children of some parents of a layer: features of each parent, features, entries of each "
        "feature, children, weights, bias of each child, and the number of children whose solver reached max_iter.");
}

}  // namespace matchset
