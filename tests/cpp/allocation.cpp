#include "allocation.hpp"

#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes(); // its header does not come with every compiler
#else
#include <malloc.h>
#endif

namespace locant::test {
namespace {
constexpr std::size_t kNever = static_cast<std::size_t>(-1);
std::size_t before_failure = kNever;
bool has_failed = false;
std::size_t asked_for = 0;
}  // namespace

std::size_t allocated_bytes() {
#if defined(__SANITIZE_ADDRESS__)
  return __sanitizer_get_current_allocated_bytes();
#elif defined(__EMSCRIPTEN__)
  return static_cast<unsigned>(mallinfo().uordblks);
#else
  return mallinfo2().uordblks;
#endif
}

std::size_t grown_bytes() {
#if defined(__EMSCRIPTEN__)
  return __builtin_wasm_memory_size(0) * 65536;
#else
  return 0;
#endif
}

FailingNew::FailingNew(std::size_t count) {
  before_failure = count;
  has_failed = false;
}
FailingNew::~FailingNew() { before_failure = kNever; }
bool FailingNew::failed() const { return has_failed; }

AllocationCount::AllocationCount() : before_(asked_for) {}
std::size_t AllocationCount::bytes() const { return asked_for - before_; }

void* allocate(std::size_t size) {
  asked_for += size;
  if (before_failure != kNever && before_failure-- == 0) {
    before_failure = kNever;
    has_failed = true;
    throw std::bad_alloc();
  }
  void* memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace locant::test

void* operator new(std::size_t size) { return locant::test::allocate(size); }
void* operator new[](std::size_t size) { return locant::test::allocate(size); }
// What sorts and other algorithms ask for their buffers: all forms must be of one kind.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size > 0 ? size : 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size > 0 ? size : 1); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
