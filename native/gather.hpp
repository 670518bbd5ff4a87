// Gathering: which instances and features do all children of one node share?
#pragma once

#include <cstdint>
#include <span>

#include "buffer.hpp"
#include "csr.hpp"

namespace matchset {

// Instances of one node as sparse rows over *columns*. A column stands for all features whose values
// are proportional over these instances: within a cluster a rare word, its bigrams and its character
// trigrams occur together or not at all, and under TF-IDF their values differ only by a constant
// factor. With x_f = a_f u for each of them, sum_f x_f w_f = u sum_f a_f w_f, and as w_f = a_f sum_i v_i u_i
// at any dual point v, one column of values u sqrt(sum_f a_f^2) gives the same problem and w_f = a_f /
// sqrt(sum_f a_f^2) times its weight. A column that occurs in one instance only needs no weight at
// all: its share of w.x is v_i times its square, kept in `own`.
struct NodeProblem {
  Buffer<std::int32_t> rows;        // rows of X, ascending, (n_rows,)
  Buffer<std::size_t> begin;        // (n_rows + 1,)
  RawBuffer<std::uint32_t> column;  // frequent columns first, (n_entries,)
  RawBuffer<float> value;           // (n_entries,)
  Buffer<float> own;                // squared length of the part that no other instance has, (n_rows,)
  Buffer<float> squared_length;     // of the whole row, without the bias, (n_rows,)
  Buffer<std::int32_t> features;    // columns of X that occur here, ascending, (n_features,)
  Buffer<std::uint32_t> column_of;  // column of each feature; n_columns + row if only that row has it
  Buffer<float> scale;              // of each feature: its weight is scale times that of its column
  std::uint32_t n_columns = 0;

  std::size_t n_rows() const { return rows.size(); }
};

// Gathers `rows` of X (ascending). In one thread, work and memory depend on these rows, not on X's width, apart from
// one table per thread.
NodeProblem gather(const CsrView& X, std::span<const std::int32_t> rows, unsigned n_threads);

}  // namespace matchset
