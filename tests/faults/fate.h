#pragma once

#include <dlfcn.h>
#include <stdlib.h>

#include <cstdio>

#include "tapegrad/tests/faults/shim.h"

// The fate of the file calls that shim.cpp has in place of the C library's.
namespace faults {

// Descriptors below this one are watched; the log has this one.
inline constexpr int kMostFds = 256;

// The function that this library hides.
template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// Text that always fits: the paths of a test are short.
template <size_t size, class... Values>
void print_to(char (&to)[size], const char* format, Values... values) {
  if (std::snprintf(to, size, format, values...) >= static_cast<int>(size)) ::abort();
}

// True if this process runs because of a request.
bool is_child();

// Counts a call. Returns the error that it shall end with; 0 if it shall be made; −1 if half of it
// shall be. The first call makes the program a server.
int fate(Call call, const char* path);

// Adds to the log of changes, if one was asked for.
void record(Record r, const void* first, const void* second = "");
void record(Record::Kind kind, const char* path, int fd = -1, int flags = 0);

}  // namespace faults
