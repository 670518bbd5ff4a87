#include "invert.hpp"

#include <algorithm>
#include <cmath>

#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kTerms = 1024;  // whose documents a thread sorts at a time

}  // namespace

InvertedDocuments invert(const CsrView& documents, std::size_t n_terms, double largest, unsigned n_threads) {
  InvertedDocuments lists;
  lists.offsets.resize(n_terms + 1);
  for (std::size_t row = 0; row < documents.n_rows(); ++row)
    for (const std::int32_t term : documents[row].index)
      if (static_cast<std::size_t>(term) < n_terms) ++lists.offsets[static_cast<std::size_t>(term) + 1];
  for (std::size_t term = 0; term < n_terms; ++term) lists.offsets[term + 1] += lists.offsets[term];
  // Entries as numbers that sort as they shall lie: by falling impact, then by document.
  Buffer<std::uint64_t> entries(static_cast<std::size_t>(lists.offsets.back()));
  Buffer<std::int64_t> ends(lists.offsets.begin(), lists.offsets.end() - 1);
  for (std::size_t row = 0; row < documents.n_rows(); ++row) {
    const SparseRow terms = documents.again(row);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const auto term = static_cast<std::size_t>(terms.index[i]);
      if (term >= n_terms) break;  // terms ascend
      const double impact = std::nearbyint(static_cast<double>(terms.value[i]) * (kLargestImpact / largest));
      const auto behind = static_cast<std::uint64_t>(kLargestImpact - std::clamp<double>(impact, 1, kLargestImpact));
      entries[static_cast<std::size_t>(ends[term]++)] = behind << 32 | row;
    }
  }
  lists.documents.resize(entries.size());
  lists.impacts.resize(entries.size());
  parallel_for((n_terms + kTerms - 1) / kTerms, n_threads, [&](std::size_t chunk) {
    for (std::size_t term = chunk * kTerms; term < std::min(n_terms, (chunk + 1) * kTerms); ++term)
      std::sort(entries.begin() + lists.offsets[term], entries.begin() + lists.offsets[term + 1]);
    const auto begin = static_cast<std::size_t>(lists.offsets[chunk * kTerms]);
    const auto end = static_cast<std::size_t>(lists.offsets[std::min(n_terms, (chunk + 1) * kTerms)]);
    for (std::size_t i = begin; i < end; ++i) {
      lists.documents[i] = static_cast<std::int32_t>(entries[i] & 0xFFFFFFFF);
      lists.impacts[i] = static_cast<std::uint8_t>(kLargestImpact - static_cast<int>(entries[i] >> 32));
    }
  });
  return lists;
}

}  // namespace matchset
