// Bindings of the limit of memory, for kernels and for NumPy.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "buffer.hpp"
#include "module.hpp"

namespace matchset {
namespace {

// What NumPy calls for the data of arrays (its C API from 1.22 on, NEP 49); declared here, since only this is needed.
struct NumpyHandler {
  char name[127];
  std::uint8_t version;
  void* context;
  void* (*malloc)(void*, std::size_t);
  void* (*calloc)(void*, std::size_t, std::size_t);
  void* (*realloc)(void*, void*, std::size_t);
  void (*free)(void*, void*, std::size_t);
};
constexpr std::size_t kSetHandler = 304;  // place of PyDataMem_SetHandler in NumPy's table of functions

NumpyHandler handler{
    "matchset",
    1,
    nullptr,
    [](void*, std::size_t n) { return allocate(n); },
    [](void*, std::size_t n, std::size_t size) { return allocate_zeros(n, size); },
    [](void*, void* old, std::size_t n) { return reallocate(old, n); },
    [](void*, void* p, std::size_t) { release(p); },
};

std::pair<std::size_t, std::string> py_limit_memory(std::size_t most, const std::string& folder) {
  MemoryLimit before = limit_memory({most, folder});
  return {before.most, std::move(before.folder)};
}

nb::object py_set_numpy_handler(nb::handle wanted) {
  nb::object numpy;
  try {
    numpy = nb::module_::import_("numpy._core._multiarray_umath");
  } catch (nb::python_error&) {  // before NumPy 2
    numpy = nb::module_::import_("numpy.core._multiarray_umath");
  }
  const nb::object table = numpy.attr("_ARRAY_API");
  auto* functions = static_cast<void**>(PyCapsule_GetPointer(table.ptr(), nullptr));
  if (functions == nullptr) nb::raise_python_error();
  const auto set_handler = reinterpret_cast<PyObject* (*)(PyObject*)>(functions[kSetHandler]);
  nb::object made = nb::borrow(wanted);
  if (wanted.is_none()) made = nb::steal(PyCapsule_New(&handler, "mem_handler", nullptr));
  nb::object before = nb::steal(set_handler(made.ptr()));
  if (!before.is_valid()) nb::raise_python_error();
  return before;
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("limit_memory", &py_limit_memory, "most"_a, "folder"_a,
        "Map arrays as files in a folder when the process would own more bytes than that (0: never); returns the "
        "limit before.");
  m.def("mapped_bytes", &mapped_bytes, "Bytes of the arrays that are mapped now.");
  m.def("was_disk_full", &was_disk_full, "Whether an array found no room on disk since the limit was set.");
  m.def("set_numpy_handler", &py_set_numpy_handler, "handler"_a.none() = nb::none(),
        "Let NumPy allocate arrays by this handler in the current context, or by ours; returns the one before.");
}

}  // namespace matchset
