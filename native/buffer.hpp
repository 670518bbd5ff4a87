// Buffer: where does a large array live, in memory that the process owns or in a mapped file?
//
// Up to a limit, arrays lie in memory as usual. Beyond it, a large array is a temporary file without a name, mapped
// into memory: the system writes it to disk when it needs the room, and removes it when the array is freed or the
// process ends, however it does. What an array holds does not depend on where it lies.
#pragma once

#include <cstddef>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace matchset {

// Arrays are mapped when the process would own more than `most` bytes (0: never), as files in `folder`.
struct MemoryLimit {
  std::size_t most = 0;
  std::string folder;
};
MemoryLimit limit_memory(const MemoryLimit& limit);  // returns the one before
std::size_t mapped_bytes();                          // of the arrays that are mapped now
bool was_disk_full();  // whether an array found no room in the folder since the last limit was set

// As those of C; pointers of malloc may be given back here too.
void* allocate(std::size_t n_bytes) noexcept;
void* allocate_zeros(std::size_t n, std::size_t size) noexcept;
void* reallocate(void* old, std::size_t n_bytes) noexcept;
void release(void* p) noexcept;

template <typename T>
struct BufferAllocator {
  using value_type = T;
  BufferAllocator() = default;
  template <typename Other>
  BufferAllocator(const BufferAllocator<Other>&) {}  // NOLINT(google-explicit-constructor): containers convert it

  T* allocate(std::size_t n) {
    if (n > std::size_t(-1) / sizeof(T)) throw std::bad_array_new_length();
    if (void* p = matchset::allocate(n * sizeof(T))) return static_cast<T*>(p);
    throw std::bad_alloc();
  }
  void deallocate(T* p, std::size_t) noexcept { release(p); }
  bool operator==(const BufferAllocator&) const = default;
};

// A vector that may be mapped.
template <typename T>
using Buffer = std::vector<T, BufferAllocator<T>>;

// A buffer whose numbers are not set to zero when it grows: many threads then write it at once, each the first to touch
// its part.
template <typename T>
struct RawAllocator : BufferAllocator<T> {
  RawAllocator() = default;
  template <typename Other>
  RawAllocator(const RawAllocator<Other>&) {}  // NOLINT(google-explicit-constructor): containers convert it
  template <typename Other>
  struct rebind {
    using other = RawAllocator<Other>;
  };

  void construct(T* p) noexcept { ::new (static_cast<void*>(p)) T; }
  template <typename... Values>
  void construct(T* p, Values&&... values) {
    ::new (static_cast<void*>(p)) T(std::forward<Values>(values)...);
  }
};
template <typename T>
using RawBuffer = std::vector<T, RawAllocator<T>>;

}  // namespace matchset
