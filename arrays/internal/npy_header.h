#pragma once

#include <string>

#include "tapegrad/arrays/internal/byte_source.h"

namespace tapegrad::arrays {

// What an .npy file says of its array, before the numbers.
struct NpyHeader {
  std::string descr;  // the type, "<f4"
  bool fortran_order;
  Shape shape;
};

// Errors name the file and what was found.
NpyHeader read_npy_header(ByteSource& source);
// All bytes before the numbers, so that these begin at a multiple of 64.
std::string npy_header(std::string_view descr, const Shape& shape);

}  // namespace tapegrad::arrays
