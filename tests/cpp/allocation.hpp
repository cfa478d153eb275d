// Memory as tests see it: how much of it is in use, and allocations that fail on purpose.
#pragma once

#include <cstddef>

namespace locant::test {

// Bytes that the program has allocated and not given back.
std::size_t allocated_bytes();

// Bytes of memory that the program has from the system and never gives back: WebAssembly's memory. 0 natively.
std::size_t grown_bytes();

// While it lives, the allocation by operator new after `count` further ones throws std::bad_alloc, once.
class FailingNew {
 public:
  explicit FailingNew(std::size_t count);
  ~FailingNew();
  bool failed() const;
};

// Counts the bytes asked of operator new since it was made.
class AllocationCount {
 public:
  AllocationCount();
  std::size_t bytes() const;

 private:
  std::size_t before_;
};

}  // namespace locant::test
