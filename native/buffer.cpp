#include "buffer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __linux__
#include <malloc.h>
#else
#include <malloc/malloc.h>
#define malloc_usable_size malloc_size
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace matchset {
namespace {

constexpr std::size_t kLeast = 128 << 10;  // bytes of a large array, as malloc counts them
constexpr std::size_t kHuge = 4 << 20;     // from here on large pages pay, as NumPy has found
constexpr std::size_t kPage = 4096;

struct State {
  std::atomic<std::size_t> limit{0};
  std::atomic<std::size_t> owned{0};  // of large arrays; some may not have been touched yet
  std::atomic<std::size_t> mapped{0};
  std::atomic<bool> is_disk_full{false};
  std::mutex lock;
  std::string folder;
  std::unordered_map<void*, std::size_t> sizes;  // of mapped arrays
};

State& state() {
  static auto* const one = new State;  // arrays may be freed until the very end of the process
  return *one;
}

// Bytes that the process owns: resident, and of no file.
std::size_t owned_bytes() {
  std::size_t resident = 0, shared = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%*u %zu %zu", &resident, &shared) != 2) resident = shared = 0;
    std::fclose(file);
  }
  const std::size_t pages = resident - std::min(resident, shared);
  return std::max(pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), state().owned.load());
}

bool is_large_and_over(std::size_t n_bytes) {
  const std::size_t limit = state().limit;
  return limit > 0 && n_bytes >= kLeast && owned_bytes() + n_bytes > limit;
}

int open_nameless(std::size_t n_bytes) {
  std::string name;
  {
    const std::lock_guard guard(state().lock);
    name = state().folder + "/.matchset-XXXXXX";
  }
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return file;
  unlink(name.c_str());
  // Without room that is reserved, a full disk would kill the process where the array is written.
  int failed = EOPNOTSUPP;
#ifdef __linux__
  failed = fallocate(file, 0, 0, static_cast<off_t>(n_bytes)) == 0 ? 0 : errno;
#endif
  if (failed == EOPNOTSUPP) failed = ftruncate(file, static_cast<off_t>(n_bytes)) == 0 ? 0 : errno;
  if (failed == 0) return file;
  if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG) state().is_disk_full = true;
  close(file);
  return -1;
}

void* map_file(std::size_t n_bytes) {
  const int file = open_nameless(n_bytes);
  if (file < 0) return nullptr;
  void* p = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (p == MAP_FAILED) return nullptr;
  const std::lock_guard guard(state().lock);
  state().sizes.emplace(p, n_bytes);
  state().mapped += n_bytes;
  return p;
}

// Bytes of a mapped array; 0 for any other. Mapped ones begin with a page, which others hardly do.
std::size_t mapped_size(void* p) {
  if (reinterpret_cast<std::uintptr_t>(p) % kPage != 0) return 0;
  const std::lock_guard guard(state().lock);
  const auto found = state().sizes.find(p);
  return found == state().sizes.end() ? 0 : found->second;
}

void* count_owned(void* p) {
  const std::size_t n_bytes = p == nullptr ? 0 : malloc_usable_size(p);
  if (n_bytes < kLeast) return p;
  state().owned += n_bytes;
#ifdef MADV_HUGEPAGE
  if (n_bytes >= kHuge) {
    const auto begin = (reinterpret_cast<std::uintptr_t>(p) + kPage - 1) / kPage * kPage;
    madvise(reinterpret_cast<void*>(begin), n_bytes - kPage, MADV_HUGEPAGE);
  }
#endif
  return p;
}

void discount_owned(void* p) {
  const std::size_t n_bytes = malloc_usable_size(p);
  if (n_bytes >= kLeast) state().owned -= n_bytes;
}

}  // namespace

MemoryLimit limit_memory(const MemoryLimit& limit) {
  const std::lock_guard guard(state().lock);
  MemoryLimit before{state().limit, std::move(state().folder)};
  state().folder = limit.folder;
  state().limit = limit.most;
  state().is_disk_full = false;
  return before;
}

std::size_t mapped_bytes() { return state().mapped; }
bool was_disk_full() { return state().is_disk_full; }

void* allocate(std::size_t n_bytes) noexcept {
  if (is_large_and_over(n_bytes)) {
    if (void* p = map_file(n_bytes)) return p;
    if (state().is_disk_full) return nullptr;
  }
  void* p = count_owned(std::malloc(std::max<std::size_t>(1, n_bytes)));
  return p != nullptr || state().limit == 0 ? p : map_file(n_bytes);
}

void* allocate_zeros(std::size_t n, std::size_t size) noexcept {
  if (size > 0 && n > std::size_t(-1) / size) return nullptr;
  if (is_large_and_over(n * size)) {
    if (void* p = map_file(n * size)) return p;  // a new file reads as zeros
    if (state().is_disk_full) return nullptr;
  }
  void* p = count_owned(std::calloc(std::max<std::size_t>(1, n), std::max<std::size_t>(1, size)));
  return p != nullptr || state().limit == 0 ? p : map_file(n * size);
}

void* reallocate(void* old, std::size_t n_bytes) noexcept {
  if (old == nullptr) return allocate(n_bytes);
  const std::size_t mapped = mapped_size(old);
  const std::size_t before = mapped > 0 ? mapped : malloc_usable_size(old);
  if (mapped == 0 && !(n_bytes > before && is_large_and_over(n_bytes))) {
    discount_owned(old);
    void* moved = std::realloc(old, std::max<std::size_t>(1, n_bytes));
    count_owned(moved != nullptr ? moved : old);
    return moved;
  }
  void* moved = allocate(n_bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, old, std::min(before, n_bytes));
  release(old);
  return moved;
}

void release(void* p) noexcept {
  if (p == nullptr) return;
  const std::size_t n_bytes = mapped_size(p);
  if (n_bytes == 0) {
    discount_owned(p);
    std::free(p);
    return;
  }
  {
    const std::lock_guard guard(state().lock);
    state().sizes.erase(p);
    state().mapped -= n_bytes;
  }
  munmap(p, n_bytes);
}

}  // namespace matchset
