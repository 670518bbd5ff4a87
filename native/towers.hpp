// Two towers: which embeddings of n-grams bring a query near the titles of its products?
//
// One table of embeddings serves queries and titles. A text's vector is the mean of its n-grams'
// embeddings, of length one. In a batch of pairs each query must find its product among the
// products of the batch (softmax over cosines; the query's other positives are left out), and a random
// part of each title must find the title. Row-wise Adagrad; only rows of the batch are touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tower_batch.hpp"

namespace matchset {

// Fills a table of n_rows x dimensions with draws of mean zero and of length about one per row.
void init_table(std::span<float> table, std::size_t dimensions, std::uint64_t seed, unsigned n_threads);

// Numbers below n in an order by chance.
std::vector<std::int32_t> shuffled(std::size_t n, std::uint64_t seed, std::uint64_t epoch);

// Where a call starts and ends: batches of one epoch, and their place in all of training.
struct TowerSteps {
  std::span<const std::int32_t> order;  // of the epoch's pairs
  std::size_t n_batches;                // of the epoch, of almost equal size
  std::size_t begin, end;               // batches to train
  std::size_t first_step, n_steps;      // number of the epoch's first step, and of all steps
};

// Trains some steps in place: table (n_features, dimensions) and squares (n_features,) are the whole state,
// so training can stop and go on between calls. Returns the mean loss of the rows of each step. The
// bytes depend on neither the number of threads nor the machine.
std::vector<float> train_towers(const TowerData& data, const TowerRule& rule, const TowerSteps& steps,
                                std::span<float> table, std::span<float> squares, unsigned n_threads);

}  // namespace matchset
