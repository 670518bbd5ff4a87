// Vectors of bytes: what do they say of texts, and how alike are two of them?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "csr.hpp"
#include "prefetch.hpp"

namespace matchset {

// Vectors as signed bytes, a scale for each: value[k] * scale. Bytes lie from -127 to 127.
struct ByteVectors {
  std::span<const std::int8_t> values;  // (n, dimensions)
  std::span<const float> scales;        // (n,); 0 where the vector is zero
  std::size_t dimensions;               // a multiple of 16

  std::size_t size() const { return scales.size(); }
  const std::int8_t* row(std::size_t i) const { return values.data() + i * dimensions; }
  void prefetch(std::size_t i, bool with_scale = true) const {
    if (with_scale) prefetch_far(&scales[i]);
    for (std::size_t at = 0; at < dimensions; at += 64) prefetch_far(row(i) + at);
  }
};

// Rounds vectors to bytes; the largest of each becomes 127.
void quantize(std::span<const float> vectors, std::size_t dimensions, std::span<std::int8_t> values,
              std::span<float> scales);

// The mean of the embeddings of each text's features, of length one; zero where it has none. Features
// whose `row_of` is negative have no embedding.
void encode_texts(const ListsView& texts, std::span<const std::int32_t> row_of, const ByteVectors& table,
                  std::span<float> out, unsigned n_threads);

// One query against many vectors.
class ByteQuery {
 public:
  static constexpr std::size_t kNothing = std::size_t{1} << 62;  // beyond all vectors

  explicit ByteQuery(std::size_t dimensions) : bytes_(dimensions), words_(dimensions) {}
  void set(std::span<const float> vector);
  void set(const std::int8_t* values, float scale);
  bool is_zero() const { return scale_ == 0; }
  std::size_t dimensions() const { return bytes_.size(); }
  // Cosines with vectors begin to end; meanwhile those from `next` on, which are wanted soon, are fetched.
  void score(const ByteVectors& vectors, std::size_t begin, std::size_t end, float* out,
             std::size_t next = kNothing) const;
  // Cosines with some vectors.
  void score(const ByteVectors& vectors, std::span<const std::uint32_t> rows, float* out) const;

 private:
  void set_bytes(float scale);

  std::vector<std::int8_t> bytes_;
  std::vector<std::int16_t> words_;  // the same, as wide as the multiplication wants them
  float scale_ = 0;
  std::int32_t sum_ = 0;  // of the bytes
};

}  // namespace matchset
