// Bindings of the inverted index.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "invert.hpp"
#include "module.hpp"
#include "postings.hpp"
#include "python_arrays.hpp"
#include "python_csr.hpp"

namespace matchset {
namespace {

CsrOut py_rank_documents(const Csr& index, std::int64_t n_documents, const Csr& X,
                         const std::optional<In<std::uint8_t>>& allowed, std::size_t k, unsigned threads) {
  const auto lists = to_csr(index, n_documents);
  const auto x = to_csr(X, static_cast<std::int64_t>(lists.n_rows()));
  const auto mask = allowed ? to_span(*allowed) : std::span<const std::uint8_t>{};
  if (allowed && mask.size() != lists.n_columns)
    throw std::invalid_argument("allowed must have one entry per document, " + std::to_string(lists.n_columns) +
                                "; got " + std::to_string(mask.size()));
  Ranked ranked = without_gil([&] { return rank_documents(lists, x, mask, k, threads); });
  return {to_numpy<std::int64_t>(std::move(ranked.offsets)), to_numpy<std::int32_t>(std::move(ranked.documents)),
          to_numpy<float>(std::move(ranked.scores))};
}

std::tuple<Out<std::int64_t>, Out<std::int32_t>, Out<std::uint8_t>> py_invert(const Csr& documents,
                                                                              std::int64_t n_columns,
                                                                              std::size_t n_terms, double largest,
                                                                              unsigned threads) {
  const auto rows = to_csr(documents, n_columns);
  if (n_terms > rows.n_columns) throw std::invalid_argument("there must be as many columns as terms");
  if (!(largest > 0)) throw std::invalid_argument("largest must be positive");
  InvertedDocuments lists = without_gil([&] { return invert(rows, n_terms, largest, threads); });
  return {to_numpy<std::int64_t>(std::move(lists.offsets)), to_numpy<std::int32_t>(std::move(lists.documents)),
          to_numpy<std::uint8_t>(std::move(lists.impacts))};
}

}  // namespace

void bind_postings(nb::module_& m) {
  m.def("rank_documents", &py_rank_documents, "index"_a.noconvert(), "n_documents"_a, "X"_a.noconvert(),
        "allowed"_a.noconvert().none(), nb::kw_only(), "k"_a, "threads"_a,
        "The k documents with the largest dot product above zero with each row of X, best first, as CSR arrays. "
        "The index holds, for each feature, the documents that have it and its weight there.");
  m.def("invert", &py_invert, "documents"_a.noconvert(), "n_columns"_a, "n_terms"_a, "largest"_a, "threads"_a,
        "For each of the first columns of documents x terms its documents and their impacts, the largest first.");
}

}  // namespace matchset
