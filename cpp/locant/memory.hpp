// Memory that a call is going to need, counted before anything is touched.
//
// On a 32-bit target a product of sizes wraps around; WebAssembly memory that has grown for a request which then
// fails stays grown. So a call that may need much counts its bytes in double, asks here first, and then turns what
// can still fail into an Error with those bytes: value() is what was asked for, limit() what there is. Counting is
// the caller's; nothing is allocated here.
#pragma once

#include <new>
#include <stdexcept>
#include <string_view>

#include "locant/error.hpp"

namespace locant {

// Bytes that can still be had as far as addresses go: in WebAssembly what is free below 4 GB, natively the address
// space (what the system will grant shows only when it is asked).
double memory_left() noexcept;

// Throws kOutOfMemory: "<call>: could not get <bytes> bytes of memory".
[[noreturn]] void out_of_memory(std::string_view call, double bytes);

// out_of_memory() where `bytes` are more than memory_left().
void require_memory(std::string_view call, double bytes);

// What `make` gives; require_memory() first, and failures to allocate in it end in out_of_memory(call, bytes).
template <class Make>
decltype(auto) with_memory(std::string_view call, double bytes, Make&& make) {
  require_memory(call, bytes);
  try {
    return make();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // a vector of more bytes than one object may have
  }
  out_of_memory(call, bytes);
}

}  // namespace locant
