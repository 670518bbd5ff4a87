// Bindings of packed trees and of search in them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "batch.hpp"
#include "module.hpp"
#include "pack.hpp"
#include "python_arrays.hpp"
#include "python_csr.hpp"
#include "python_tree.hpp"
#include "python_vocabulary.hpp"
#include "search.hpp"
#include "unpack.hpp"

namespace matchset {
namespace {

// features of each parent, features, entries of each feature, children, weights, bias
using Part = std::tuple<In<std::int64_t>, In<std::int32_t>, In<std::int32_t>, In<std::uint16_t>, In<float>, In<float>>;
using Layer = std::pair<In<std::int64_t>, std::vector<Part>>;  // first child of each parent, parts
using RowOut = std::pair<Out<std::int32_t>, Out<float>>;

// How to search: made once by Python for many calls.
struct Rule {
  std::size_t k, beam;
  Scoring scoring;

  SearchRule with(const Allowed* allowed) const { return {k, beam, scoring, allowed}; }
};

RowOut to_row(const PackedTree& tree, const std::vector<ScoredNode>& found) {
  // One allocation for both arrays: half of the cost of a short call is memory for its result.
  const std::size_t n = found.size();
  auto memory = std::make_unique_for_overwrite<std::int32_t[]>(2 * n + 1);
  auto* labels = memory.get();
  auto* scores = reinterpret_cast<float*>(labels + n);
  for (std::size_t i = 0; i < n; ++i) {
    labels[i] = tree.label(found[i].node);
    std::memcpy(&scores[i], &found[i].score, sizeof(float));
  }
  const nb::capsule owner(memory.release(), [](void* p) noexcept { delete[] static_cast<std::int32_t*>(p); });
  return {Out<std::int32_t>(labels, {n}, owner), Out<float>(scores, {n}, owner)};
}

CsrOut to_labels(const PackedTree& tree, Found&& found) {
  for (std::int32_t& node : found.nodes) node = tree.label(static_cast<std::uint32_t>(node));
  return {to_numpy<std::int64_t>(std::move(found.offsets)), to_numpy<std::int32_t>(std::move(found.nodes)),
          to_numpy<float>(std::move(found.scores))};
}

SearchScratch& own_scratch() {
  static thread_local SearchScratch scratch;
  return scratch;
}

void check_vocabulary(const PackedTree& tree, const Vocabulary& vocabulary) {
  if (vocabulary.view().n_features() != tree.view().n_features)
    throw std::invalid_argument("the vocabulary must have " + std::to_string(tree.view().n_features) +
                                " features, as the tree has; got " + std::to_string(vocabulary.view().n_features()));
}

RowOut py_search_text(const PackedTree& tree, const Vocabulary& vocabulary, nb::handle text, const Rule& rule,
                      const Allowed* allowed) {
  check_vocabulary(tree, vocabulary);
  nb::object owner;
  const std::string_view bytes = query_to_utf8(text, owner);
  SearchScratch& scratch = own_scratch();
  without_gil([&] {
    vectorize(bytes, vocabulary.view(), scratch.query);
    search_one(tree.view(), scratch.query.ids, scratch.query.weights, rule.with(allowed), scratch);
  });
  return to_row(tree, scratch.found);
}

RowOut py_search_row(const PackedTree& tree, const In<std::int32_t>& ids, const In<float>& values, const Rule& rule,
                     const Allowed* allowed) {
  if (ids.size() != values.size()) throw std::invalid_argument("a row must have as many ids as values");
  for (const std::int32_t id : to_span(ids))
    if (id < 0 || static_cast<std::uint32_t>(id) >= tree.view().n_features)
      throw std::invalid_argument("ids must be below " + std::to_string(tree.view().n_features) + "; got " +
                                  std::to_string(id));
  SearchScratch& scratch = own_scratch();
  const std::span features(reinterpret_cast<const std::uint32_t*>(ids.data()), ids.size());
  without_gil([&] { search_one(tree.view(), features, to_span(values), rule.with(allowed), scratch); });
  return to_row(tree, scratch.found);
}

CsrOut py_search_rows(const PackedTree& tree, const Csr& X, const Rule& rule, const Allowed* allowed,
                      unsigned threads) {
  const auto x = to_csr(X, tree.view().n_features);
  return to_labels(tree, without_gil([&] { return search_rows(tree.view(), x, rule.with(allowed), threads); }));
}

CsrOut py_search_texts(const PackedTree& tree, const Vocabulary& vocabulary, const In<std::uint8_t>& data,
                       const In<std::int64_t>& offsets, const Rule& rule, const Allowed* allowed, unsigned threads) {
  check_vocabulary(tree, vocabulary);
  const auto texts = to_strings(data, offsets);
  const SearchRule full = rule.with(allowed);
  return to_labels(tree,
                   without_gil([&] { return search_texts(tree.view(), vocabulary.view(), texts, full, threads); }));
}

using PackedOut = std::tuple<Out<std::uint32_t>, Out<std::uint8_t>, Out<std::uint8_t>>;

PackedOut py_pack_layers(const std::vector<Layer>& layers, std::uint32_t n_features, int weight_bytes, bool is_whole,
                         unsigned threads) {
  std::vector<PackedLayer> views;
  for (const auto& [first_child, parts] : layers) {
    views.push_back({to_span(first_child), {}});
    for (const auto& [n_features_of, features, n_entries, children, weights, bias] : parts)
      views.back().parts.push_back({to_span(n_features_of), to_span(features), to_span(n_entries), to_span(children),
                                    to_span(weights), to_span(bias)});
  }
  const Precision precision = to_precision(weight_bytes);
  PackedArrays packed = without_gil([&] { return pack(views, n_features, precision, is_whole, threads); });
  std::vector<std::uint8_t> blocks(packed.blocks.size() * sizeof(PackedBlock));
  std::memcpy(blocks.data(), packed.blocks.data(), blocks.size());
  return {to_numpy<std::uint32_t>(std::move(packed.first_block)), to_numpy<std::uint8_t>(std::move(blocks)),
          to_numpy<std::uint8_t>(std::move(packed.data))};
}

using ParentOut = std::tuple<Out<std::int32_t>, Out<std::int64_t>, Out<std::uint16_t>, Out<float>, Out<float>>;

ParentOut py_unpack_parent(const PackedTree& tree, std::size_t level, std::size_t parent) {
  ParentRows rows = without_gil([&] { return unpack_parent(tree.view(), level, parent); });
  return {to_numpy<std::int32_t>(std::move(rows.features)), to_numpy<std::int64_t>(std::move(rows.first_entry)),
          to_numpy<std::uint16_t>(std::move(rows.children)), to_numpy<float>(std::move(rows.weights)),
          to_numpy<float>(std::move(rows.bias))};
}

using NodeOut = std::tuple<Out<std::int32_t>, Out<float>, float>;  // features, weights, bias

NodeOut py_node_weights(const PackedTree& tree, std::size_t level, std::size_t node,
                        const std::optional<In<std::int32_t>>& features) {
  NodeWeights found = without_gil([&] {
    return features ? find_weights(tree.view(), level, node, to_span(*features))
                    : unpack_node(tree.view(), level, node);
  });
  return {to_numpy<std::int32_t>(std::move(found.features)), to_numpy<float>(std::move(found.weights)), found.bias};
}

Out<std::int32_t> py_strongest(const PackedTree& tree, std::size_t level, std::size_t node, std::size_t n) {
  return to_numpy<std::int32_t>(without_gil([&] { return strongest_features(tree.view(), level, node, n); }));
}

void py_init_rule(Rule* self, std::size_t k, std::size_t beam, unsigned hinge_power, bool is_log, float min_score) {
  if (hinge_power > 6)
    throw std::invalid_argument("hinge_power must be from 0 to 6; got " + std::to_string(hinge_power));
  // No level has as many nodes, and small multiples of them do not overflow.
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  new (self) Rule{std::min(k, kMost), std::min(beam, kMost), {hinge_power, is_log, min_score}};
}

Allowed py_allow(const PackedTree& self, const In<bool>& is_allowed) {
  return Allowed(self.view(), self.by_leaf(to_span(is_allowed)));
}

void bind_tree(nb::module_& m) {
  nb::class_<PackedTree>(m, "PackedTree", "A view over the arrays of a packed tree.")
      .def(nb::init<In<std::uint32_t>, In<std::uint8_t>, In<std::uint8_t>, In<std::int32_t>, std::vector<std::uint32_t>,
                    std::uint32_t, std::uint32_t, int>(),
           "first_block"_a.noconvert(), "blocks"_a.noconvert(), "data"_a.noconvert(), "labels"_a.noconvert(),
           nb::kw_only(), "sizes"_a, "n_features"_a, "n_labels"_a, "weight_bytes"_a)
      .def("allow", &py_allow, "is_allowed"_a.noconvert(), "Prepare a filter from one boolean per label.")
      .def("search_text", &py_search_text, "vocabulary"_a, "text"_a, "rule"_a, "allowed"_a.none() = nb::none(),
           nb::sig("def search_text(self, vocabulary: Vocabulary, text: str, rule: SearchRule, "
                   "allowed: Allowed | None = None) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32]]"),
           "Labels and scores of one text, best first.")
      .def("search_row", &py_search_row, "ids"_a.noconvert(), "values"_a.noconvert(), "rule"_a,
           "allowed"_a.none() = nb::none(), "Labels and scores of one sparse vector, best first.")
      .def("search_rows", &py_search_rows, "X"_a.noconvert(), "rule"_a, "allowed"_a.none() = nb::none(), nb::kw_only(),
           "threads"_a, "Offsets, labels and scores of the rows of X, each best first.")
      .def("search_texts", &py_search_texts, "vocabulary"_a, "data"_a.noconvert(), "offsets"_a.noconvert(), "rule"_a,
           "allowed"_a.none() = nb::none(), nb::kw_only(), "threads"_a,
           "Offsets, labels and scores of texts, each best first.")
      .def("unpack_parent", &py_unpack_parent, "level"_a, "parent"_a,
           "Features of a parent, first entry of each, children, weights, and the children's bias.")
      .def("node_weights", &py_node_weights, "level"_a, "node"_a, "features"_a.noconvert().none() = nb::none(),
           "Features and weights of a node, and its bias: all of them, features ascending, or only those among "
           "`features`, in that order.")
      .def("strongest", &py_strongest, "level"_a, "node"_a, "n"_a,
           "The n features with the largest weights of a node, largest first.");
}

}  // namespace

void bind_search(nb::module_& m) {
  m.def("pack_layers", &py_pack_layers, "layers"_a.noconvert(), "n_features"_a, nb::kw_only(), "weight_bytes"_a,
        "is_whole"_a, "threads"_a,
        "Packed form of the layers of a tree, or of any of its parents: first block of each, blocks, data (see "
        "packed.hpp).");
  nb::class_<Rule>(m, "SearchRule", "How many to return, how wide to search, how to score.")
      .def("__init__", &py_init_rule, nb::kw_only(), "k"_a, "beam"_a, "hinge_power"_a, "is_log"_a, "min_score"_a);
  nb::class_<Allowed>(m, "Allowed", "Labels that a search may return, for one tree.")
      .def_prop_ro("total", &Allowed::total, "Number of the tree's labels that are allowed.");
  bind_tree(m);
}

}  // namespace matchset
