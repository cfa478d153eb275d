// The test program: every other file in this folder holds the tests of one concept.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

// Memory that cannot be had is a null pointer here too, as it is without the sanitizers: the library answers it.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
