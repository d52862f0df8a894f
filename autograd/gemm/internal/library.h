#pragma once

#include <functional>
#include <string>

#include "tapegrad/autograd/gemm/bf16_instructions.h"
#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad {

// The interface of a library for matrix products, for partition.cpp. To add a library: write one
// file that defines its two functions, declare them below, and name the library in choose.cpp.

// How a library's product may be cut so that the result does not depend on the number of threads.
enum class Pieces {
  // A row of C has the same bits in every piece of many rows. So pieces of rows may depend on the
  // number of threads. partition.cpp tries this once for each T, and otherwise cuts by shape.
  rows,
  // The bits depend on the sizes of the piece. So the pieces depend on m, n and k alone.
  by_shape,
};

// How a library multiplies elements of one type.
template <class T>
struct Multiplier {
  // The whole of g on the calling thread; m and n are at least 1. Error if the library cannot.
  void (*multiply)(const Gemm<T>& g);
  Pieces pieces = Pieces::by_shape;
  // The same for one long row (m is 1), if the library has a faster way for it: may round
  // differently. Null if it has none.
  void (*multiply_row)(const Gemm<T>& g) = nullptr;
};

// A library's way to multiply T; null if this build or this processor has none. T is float, double,
// bf16 or (oneDNN) std::int8_t. Needs no lock: each library decides once.
template <class T>
const Multiplier<T>* openblas();
template <class T>
const Multiplier<T>* onednn();
// Loops of our own, in plain_products.cpp: where OpenBLAS does not exist. T is float or double.
template <class T>
const Multiplier<T>* plain_products();

// A product of 8 bits by products of floats, whose sums of so many small whole numbers are exact.
// For processors without instructions for it: no faster than f32, and the same bits.
void multiply_by_floats(const Gemm<std::int8_t>& g);

// The instructions that oneDNN has for bf16 on this processor.
Bf16Instructions onednn_bf16();

// Name and version, or why the library is of no use here.
std::string describe_openblas(bool reason = true);  // why these kernels
std::string describe_onednn(Precision precision);

// Runs `work` with so many threads of the libraries' own, for measuring what they reach. It must
// call multipliers, not gemm().
void with_library_threads(int threads, const std::function<void()>& work);
// The number of threads that a library must use for the calling thread: 1 outside of
// with_library_threads().
int library_threads();

// Adds to gemm_flops().
void count_multiplications(std::int64_t n);

// The decision, in choose.cpp: what multiplies g in this process. Error if nothing can. It depends
// on g's transpositions, sizes, alpha and beta, and on set_gemm_library().
template <class T>
const Multiplier<T>& chosen(const Gemm<T>& g);

// Tells the GemmLog that lives, if one does.
void log_product(const GemmShape& shape);

}  // namespace tapegrad
