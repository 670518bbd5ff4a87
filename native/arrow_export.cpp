#include <cerrno>
#include <exception>
#include <utility>

#include "arrow.hpp"

namespace matchset {
namespace {

using TablePointer = std::shared_ptr<const ArrowExportTable>;

constexpr std::int64_t kNullable = 2;  // ARROW_FLAG_NULLABLE

// What a schema or an array owns. Every child has a node of its own, because a reader may move a
// child out and release it after its parent.
template <typename T>
struct Node {
  TablePointer table;
  std::vector<T> children{};
  std::vector<T*> pointers{};
  T dictionary{};
  const void* buffers[3] = {};

  void add_children(std::size_t n) {
    children.resize(n);
    for (T& child : children) pointers.push_back(&child);
  }
};

template <typename T>
void release_node(T* self) {
  auto* node = static_cast<Node<T>*>(self->private_data);
  for (T& child : node->children)
    if (child.release) child.release(&child);
  if (node->dictionary.release) node->dictionary.release(&node->dictionary);
  delete node;
  self->release = nullptr;
}

template <typename T>
Node<T>& add_node(T& out, const TablePointer& table, std::size_t n_children) {
  out = T{};
  auto node = std::make_unique<Node<T>>(Node<T>{.table = table});
  node->add_children(n_children);
  out.n_children = static_cast<std::int64_t>(n_children);
  out.children = node->pointers.data();
  out.release = &release_node<T>;
  out.private_data = node.get();
  return *node.release();  // freed by release_node
}

Node<ArrowSchema>& add_schema(ArrowSchema& out, const TablePointer& table, const char* format, const char* name,
                              std::size_t n_children = 0) {
  Node<ArrowSchema>& node = add_node(out, table, n_children);
  out.format = format;
  out.name = name;
  out.flags = kNullable;
  return node;
}

void fill_schema(ArrowSchema& out, const TablePointer& table) {
  Node<ArrowSchema>& root = add_schema(out, table, "+s", "", table->columns.size());
  for (std::size_t i = 0; i < table->columns.size(); ++i) {
    const ArrowExportColumn& column = table->columns[i];
    Node<ArrowSchema>& node = add_schema(root.children[i], table, column.format.c_str(), column.name.c_str());
    if (!column.has_texts || column.format == "U") continue;
    add_schema(node.dictionary, table, "U", "");
    root.children[i].dictionary = &node.dictionary;
  }
}

Node<ArrowArray>& add_array(ArrowArray& out, const TablePointer& table, std::size_t n_rows, std::int64_t n_buffers,
                            std::size_t n_children = 0) {
  Node<ArrowArray>& node = add_node(out, table, n_children);
  out.length = static_cast<std::int64_t>(n_rows);
  out.n_buffers = n_buffers;
  out.buffers = node.buffers;
  return node;
}

void fill_array(ArrowArray& out, const TablePointer& table) {
  const auto n_rows = static_cast<std::size_t>(table->n_rows);
  Node<ArrowArray>& root = add_array(out, table, n_rows, 1, table->columns.size());
  for (std::size_t i = 0; i < table->columns.size(); ++i) {
    const ArrowExportColumn& column = table->columns[i];
    const bool is_text = column.format == "U";
    Node<ArrowArray>& node = add_array(root.children[i], table, n_rows, is_text ? 3 : 2);
    node.buffers[0] = column.valid;
    node.buffers[1] = column.values;
    root.children[i].null_count = column.valid ? -1 : 0;
    if (!column.has_texts) continue;
    Node<ArrowArray>& texts = is_text ? node : add_array(node.dictionary, table, column.texts.size(), 3);
    texts.buffers[1] = column.texts.offsets.data();
    texts.buffers[2] = column.texts.data.data();
    if (!is_text) root.children[i].dictionary = &node.dictionary;
  }
}

struct Export {
  TablePointer table;
  bool is_read = false;
};

// No exception may cross the interface; only a lack of memory can fail here.
template <typename Fill>
int guarded(Fill&& fill) {
  try {
    fill();
    return 0;
  } catch (const std::exception&) {
    return ENOMEM;
  }
}

}  // namespace

void export_arrow_table(TablePointer table, ArrowArrayStream& out) {
  out.private_data = new Export{std::move(table)};  // freed by release below
  out.get_schema = [](ArrowArrayStream* self, ArrowSchema* schema) {
    return guarded([&] { fill_schema(*schema, static_cast<Export*>(self->private_data)->table); });
  };
  out.get_next = [](ArrowArrayStream* self, ArrowArray* array) {
    auto* state = static_cast<Export*>(self->private_data);
    *array = ArrowArray{};  // released: the end
    if (std::exchange(state->is_read, true)) return 0;
    return guarded([&] { fill_array(*array, state->table); });
  };
  out.get_last_error = [](ArrowArrayStream*) -> const char* { return "not enough memory"; };
  out.release = [](ArrowArrayStream* self) {
    delete static_cast<Export*>(self->private_data);
    self->release = nullptr;
  };
}

}  // namespace matchset
