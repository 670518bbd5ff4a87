#include "arrow.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace matchset {
namespace {

// Releases a schema or an array at the end of its scope, as the specification requires.
template <typename T>
struct Released : T {
  Released() : T{} {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    if (this->release) this->release(this);
  }
};

[[noreturn]] void fail(const std::string& column, const std::string& what) {
  throw std::runtime_error("column \"" + column + "\" " + what);
}

void check_call(ArrowArrayStream& stream, int code) {
  if (code == 0) return;
  const char* message = stream.get_last_error ? stream.get_last_error(&stream) : nullptr;
  throw std::runtime_error(message ? message : "the Arrow stream failed with code " + std::to_string(code));
}

// One column of one batch, checked as far as the interface allows: buffers carry no size.
struct Batch {
  const ArrowArray& array;
  std::size_t begin, n;

  Batch(const ArrowArray& values, std::int64_t outer_offset, std::int64_t length, std::int64_t n_buffers,
        const std::string& name)
      : array(values), begin(0), n(static_cast<std::size_t>(length)) {
    if (values.length < 0 || values.offset < 0 || outer_offset < 0 || values.length < outer_offset + length)
      fail(name, "has an Arrow batch of the wrong length");
    if (values.n_buffers < n_buffers || !values.buffers)
      fail(name, "has " + std::to_string(values.n_buffers) + " Arrow buffers; expected " + std::to_string(n_buffers));
    begin = static_cast<std::size_t>(values.offset + outer_offset);
    for (std::int64_t i = 1; i < std::min<std::int64_t>(n_buffers, 2); ++i)
      if (n > 0 && !values.buffers[i]) fail(name, "has a missing Arrow buffer");
  }
  template <typename T>
  const T* values(std::size_t buffer = 1) const {
    return static_cast<const T*>(array.buffers[buffer]);
  }
  static bool bit(const std::uint8_t* bits, std::size_t i) { return (bits[i >> 3] >> (i & 7)) & 1; }
  bool is_null(std::size_t i) const {
    const auto* valid = values<std::uint8_t>(0);
    return valid && array.null_count != 0 && !bit(valid, begin + i);
  }
};

// Arrow does not give the size of the text bytes, so all offsets are checked before any text is read. If they ascend,
// only the last one can be wrong, and there we have to trust the producer.
template <typename Offset>
void check_offsets(const Batch& batch, const std::string& name) {
  const auto* offsets = batch.values<Offset>() + batch.begin;
  if (offsets[0] < 0 || !std::is_sorted(offsets, offsets + batch.n + 1)) fail(name, "has descending Arrow offsets");
}

template <typename Offset>
std::string_view text_at(const Batch& batch, std::size_t i, const std::string& name) {
  const auto* offsets = batch.values<Offset>();
  const Offset from = offsets[batch.begin + i], to = offsets[batch.begin + i + 1];
  if (from == to) return {};
  const char* bytes = batch.values<char>(2);
  if (!bytes) fail(name, "has a missing Arrow buffer");
  return {bytes + from, static_cast<std::size_t>(to - from)};
}

// A view is 16 bytes: a length, then up to 12 bytes inline, or a prefix, a buffer and an offset.
std::string_view view_at(const Batch& batch, std::size_t i, const std::string& name) {
  const char* view = batch.values<char>() + 16 * (batch.begin + i);
  std::int32_t length = 0, location[2];
  std::memcpy(&length, view, 4);
  if (length < 0) fail(name, "has a text of negative length");
  if (length <= 12) return {view + 4, static_cast<std::size_t>(length)};
  std::memcpy(location, view + 8, 8);
  const std::int64_t n_data = batch.array.n_buffers - 3;  // validity, views, ..., sizes of the data buffers
  if (location[0] < 0 || location[0] >= n_data || location[1] < 0) fail(name, "has a view outside its Arrow buffers");
  const auto* sizes = batch.values<std::int64_t>(static_cast<std::size_t>(batch.array.n_buffers - 1));
  const char* bytes = batch.values<char>(static_cast<std::size_t>(location[0]) + 2);
  if (!sizes || !bytes || std::int64_t{location[1]} + length > sizes[location[0]])
    fail(name, "has a view outside its Arrow buffers");
  return {bytes + location[1], static_cast<std::size_t>(length)};
}

class Reader {
 public:
  Reader(const ArrowSchema& schema, bool is_coded) {
    column.name = schema.name ? schema.name : "";
    format_ = schema.format ? schema.format : "";
    if (schema.dictionary) fail(column.name, "is dictionary-encoded, which is not supported here");
    column.kind = to_kind(is_coded);
  }

  void append(const ArrowArray& array, std::int64_t offset, std::int64_t length) {
    const std::int64_t n_buffers = format_ == "u" || format_ == "U" || format_ == "vu" ? 3 : 2;
    const Batch batch(array, offset, length, n_buffers, column.name);
    append_nulls(batch);
    switch (column.kind) {
      case ArrowKind::kText:
      case ArrowKind::kCode: return append_texts(batch);
      case ArrowKind::kInt32: return append_numbers<std::int32_t>(batch, column.int32s);
      case ArrowKind::kInt64: return append_int64s(batch);
      case ArrowKind::kDouble:
        return format_ == "f" ? append_numbers<float>(batch, column.doubles)
                              : append_numbers<double>(batch, column.doubles);
      case ArrowKind::kBool:
        for (std::size_t i = 0; i < batch.n; ++i)
          column.bools.push_back(!batch.is_null(i) && Batch::bit(batch.values<std::uint8_t>(), batch.begin + i));
    }
  }

  ArrowColumn column;

 private:
  ArrowKind to_kind(bool is_coded) const {
    if (format_ == "u" || format_ == "U" || format_ == "vu") return is_coded ? ArrowKind::kCode : ArrowKind::kText;
    if (format_ == "i" || format_ == "tdD") return ArrowKind::kInt32;
    if (format_.size() == 1 && std::string_view("cCsSIlL").find(format_[0]) != std::string_view::npos)
      return ArrowKind::kInt64;
    if (format_ == "f" || format_ == "g") return ArrowKind::kDouble;
    if (format_ == "b") return ArrowKind::kBool;
    fail(column.name, "has the Arrow format \"" + format_ + "\", which is not supported here");
  }

  void append_nulls(const Batch& batch) {
    Buffer<std::uint8_t>& nulls = column.nulls;
    if (batch.array.null_count != 0 && batch.values<std::uint8_t>(0)) {
      nulls.resize(n_rows_, 0);
      for (std::size_t i = 0; i < batch.n; ++i) nulls.push_back(batch.is_null(i));
    } else if (!nulls.empty()) {
      nulls.resize(n_rows_ + batch.n, 0);
    }
    n_rows_ += batch.n;
  }

  void append_texts(const Batch& batch) {
    const bool is_view = format_ == "vu", is_large = format_ == "U";
    if (batch.n > 0 && !is_view)
      is_large ? check_offsets<std::int64_t>(batch, column.name) : check_offsets<std::int32_t>(batch, column.name);
    for (std::size_t i = 0; i < batch.n; ++i) {
      const bool is_null = batch.is_null(i);
      const std::string_view text = is_null    ? std::string_view()
                                    : is_view  ? view_at(batch, i, column.name)
                                    : is_large ? text_at<std::int64_t>(batch, i, column.name)
                                               : text_at<std::int32_t>(batch, i, column.name);
      if (column.kind == ArrowKind::kText)
        column.texts.append(text);
      else
        column.codes.push_back(is_null ? -1 : encode(text));
    }
  }

  std::int32_t encode(std::string_view text) {
    const auto n_distinct = static_cast<std::int64_t>(column.texts.offsets.size()) - 1;
    const std::int64_t code = table_.insert(
        text, n_distinct, [&](std::int64_t at) { return column.texts.view()[static_cast<std::size_t>(at)]; });
    if (code == n_distinct) {
      if (n_distinct == std::numeric_limits<std::int32_t>::max()) fail(column.name, "has too many distinct texts");
      column.texts.append(text);
    }
    return static_cast<std::int32_t>(code);
  }

  template <typename From, typename To>
  void append_numbers(const Batch& batch, Buffer<To>& out) {
    const auto* values = batch.values<From>();
    for (std::size_t i = 0; i < batch.n; ++i) out.push_back(batch.is_null(i) ? To{} : To(values[batch.begin + i]));
  }

  void append_int64s(const Batch& batch) {
    Buffer<std::int64_t>& out = column.int64s;
    switch (format_[0]) {
      case 'c': return append_numbers<std::int8_t>(batch, out);
      case 'C': return append_numbers<std::uint8_t>(batch, out);
      case 's': return append_numbers<std::int16_t>(batch, out);
      case 'S': return append_numbers<std::uint16_t>(batch, out);
      case 'I': return append_numbers<std::uint32_t>(batch, out);
      case 'l': return append_numbers<std::int64_t>(batch, out);
      default: break;
    }
    const auto* values = batch.values<std::uint64_t>();
    for (std::size_t i = 0; i < batch.n; ++i)
      if (!batch.is_null(i) && values[batch.begin + i] > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
        fail(column.name, "has a number beyond 64-bit signed integers");
    append_numbers<std::uint64_t>(batch, out);
  }

  std::string format_;
  std::size_t n_rows_ = 0;
  StringTable table_;
};

std::vector<Reader> open_readers(const ArrowSchema& schema, std::span<const std::string> coded) {
  if (!schema.format || std::string_view(schema.format) != "+s")
    throw std::runtime_error("the Arrow stream must hold rows of named columns");
  std::vector<Reader> readers;
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    if (!schema.children || !schema.children[i]) throw std::runtime_error("the Arrow stream has a broken schema");
    const ArrowSchema& child = *schema.children[i];
    const bool is_coded = std::find(coded.begin(), coded.end(), child.name ? child.name : "") != coded.end();
    readers.emplace_back(child, is_coded);
  }
  return readers;
}

struct SharedReader {
  std::shared_ptr<ArrowArrayStream> stream;
};

ArrowArrayStream& shared(ArrowArrayStream* reader) { return *static_cast<SharedReader*>(reader->private_data)->stream; }

}  // namespace

std::vector<ArrowColumn> read_arrow_stream(ArrowArrayStream& stream, std::span<const std::string> coded,
                                           const std::function<void()>& after_batch) {
  if (!stream.release || !stream.get_schema || !stream.get_next)
    throw std::runtime_error("the Arrow stream was already read");
  Released<ArrowSchema> schema;
  check_call(stream, stream.get_schema(&stream, &schema));
  std::vector<Reader> readers = open_readers(schema, coded);
  for (;;) {
    Released<ArrowArray> batch;
    check_call(stream, stream.get_next(&stream, &batch));
    if (!batch.release) break;  // the end
    if (batch.n_children != static_cast<std::int64_t>(readers.size()) || batch.length < 0)
      throw std::runtime_error("the Arrow stream holds a batch that does not fit its schema");
    for (std::size_t i = 0; i < readers.size(); ++i) {
      if (!batch.children || !batch.children[i]) throw std::runtime_error("the Arrow stream has a broken batch");
      readers[i].append(*batch.children[i], batch.offset, batch.length);
    }
    after_batch();
  }
  std::vector<ArrowColumn> columns;
  for (Reader& reader : readers) columns.push_back(std::move(reader.column));
  return columns;
}

SharedArrowStream::SharedArrowStream(ArrowArrayStream& stream) {
  if (!stream.release) throw std::runtime_error("the Arrow stream was already read");
  stream_ = std::shared_ptr<ArrowArrayStream>(new ArrowArrayStream(stream), [](ArrowArrayStream* owned) {
    if (owned->release) owned->release(owned);
    delete owned;
  });
  stream.release = nullptr;  // "moved" in the specification
}

void SharedArrowStream::open(ArrowArrayStream& out) const {
  out.private_data = new SharedReader{stream_};  // owned by the stream until its release below
  out.get_schema = [](ArrowArrayStream* self, ArrowSchema* schema) {
    return shared(self).get_schema(&shared(self), schema);
  };
  out.get_next = [](ArrowArrayStream* self, ArrowArray* array) { return shared(self).get_next(&shared(self), array); };
  out.get_last_error = [](ArrowArrayStream* self) -> const char* {
    return shared(self).get_last_error ? shared(self).get_last_error(&shared(self)) : nullptr;
  };
  out.release = [](ArrowArrayStream* self) {
    delete static_cast<SharedReader*>(self->private_data);
    self->release = nullptr;
  };
}

std::vector<std::string> SharedArrowStream::column_names() const {
  Released<ArrowSchema> schema;
  check_call(*stream_, stream_->get_schema(stream_.get(), &schema));
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    if (!schema.children || !schema.children[i]) throw std::runtime_error("the Arrow stream has a broken schema");
    names.emplace_back(schema.children[i]->name ? schema.children[i]->name : "");
  }
  return names;
}

}  // namespace matchset
