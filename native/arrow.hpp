// Arrow: how are columns read from, and given to, any library with the Arrow C stream interface?
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strings.hpp"

// The structures of the Arrow C data and stream interfaces, as the specification gives them:
// https://arrow.apache.org/docs/format/CStreamInterface.html
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowArrayStream*, ArrowArray*);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};
}

namespace matchset {

enum class ArrowKind { kText, kCode, kInt32, kInt64, kDouble, kBool };

// One column of a stream; only the vector of its kind is filled.
struct ArrowColumn {
  std::string name;
  ArrowKind kind = ArrowKind::kText;
  OwnedStrings texts;           // kText: every value; kCode: the distinct values
  Buffer<std::int32_t> codes;   // kCode: index into texts, -1 for null
  Buffer<std::int32_t> int32s;  // kInt32
  Buffer<std::int64_t> int64s;  // kInt64
  Buffer<double> doubles;       // kDouble
  Buffer<std::uint8_t> bools;   // kBool
  Buffer<std::uint8_t> nulls;   // 1 for null; empty if no value is
};

// Reads a stream to its end. Text columns named in `coded` come as codes into their distinct values,
// numbered by first appearance. Throws std::runtime_error on a failing stream or an unknown format.
// The caller releases the stream; what the stream hands out is always released here.
std::vector<ArrowColumn> read_arrow_stream(ArrowArrayStream& stream, std::span<const std::string> coded,
                                           const std::function<void()>& after_batch);

// A stream that several readers may open: each sees the schema, and together they see every batch once.
// DuckDB opens a source several times for its schema and reads it once; most streams open only once.
class SharedArrowStream {
 public:
  // Takes the stream over and leaves `stream` released.
  explicit SharedArrowStream(ArrowArrayStream& stream);
  // Fills `out` with one more reader.
  void open(ArrowArrayStream& out) const;
  // As the schema has them: readers such as DuckDB rename those that occur twice.
  std::vector<std::string> column_names() const;

 private:
  std::shared_ptr<ArrowArrayStream> stream_;
};

// One column of an exported table; its buffers are borrowed, and kept alive by the table's owner.
struct ArrowExportColumn {
  std::string name;
  std::string format;  // of the values: g, i, tdD, C or b (bits); or U, for texts
  const void* valid;   // bitmap, nullptr if no value is null
  const void* values;  // for texts: nullptr
  bool has_texts = false;
  StringsView texts{};  // for format U the values, else the dictionary of the codes in `values`
};
struct ArrowExportTable {
  std::vector<ArrowExportColumn> columns;
  std::int64_t n_rows;
  std::shared_ptr<void> owner;  // keeps the buffers alive
};

// Fills `out` with a stream of one batch that borrows the table's buffers.
void export_arrow_table(std::shared_ptr<const ArrowExportTable> table, ArrowArrayStream& out);

}  // namespace matchset
