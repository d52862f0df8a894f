// Products of f32, bf16 and 8 bits by oneDNN. A build that does not find oneDNN leaves it out.

#include "tapegrad/autograd/gemm/internal/library.h"
#include "tapegrad/base/error.h"

#ifdef TAPEGRAD_ONEDNN

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "tapegrad/base/memory/memory.h"

namespace tapegrad {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

template <class T>
constexpr memory::data_type type_of() {
  if (std::is_same_v<T, bf16>) return memory::data_type::bf16;
  if (std::is_same_v<T, std::int8_t>) return memory::data_type::s8;
  return std::is_same_v<T, std::int32_t> ? memory::data_type::s32 : memory::data_type::f32;
}

// The numbers that decide a primitive. The addresses come with each call.
using Key = std::array<memory::dim, 10>;

template <class T>
Key key_of(const Gemm<T>& g) {
  return {g.ta, g.tb, g.m, g.n, g.k, g.lda, g.ldb, g.ldc, g.beta != 0, library_threads()};
}

struct Product {
  memory::desc a, b, c, scratch;
  dnnl::matmul primitive;
};

// The strides of a matrix. The numbers of a single row or column are neighbours by now (gathered).
// How far the next row or column would be is up to us: oneDNN's versions disagree about it, and
// agree about this form, which is that of their own plain layout.
memory::dims strides(memory::dim rows, memory::dim columns, bool transposed, memory::dim ld) {
  if (rows == 1 || columns == 1) return {columns, 1};
  return transposed ? memory::dims{1, ld} : memory::dims{ld, 1};
}

template <class T>
Product make_product(const Gemm<T>& g) {
  constexpr auto type = type_of<T>(), sum = type_of<typename Gemm<T>::Sum>();
  Product p;
  p.a = memory::desc({g.m, g.k}, type, strides(g.m, g.k, g.ta, g.lda));
  p.b = memory::desc({g.k, g.n}, type, strides(g.k, g.n, g.tb, g.ldb));
  p.c = memory::desc({g.m, g.n}, sum, strides(g.m, g.n, false, g.ldc));
  dnnl::primitive_attr attributes;
  // ONEDNN_DEFAULT_FPMATH_MODE would let it round floats.
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  // The caller provides the scratch memory, so that the primitive holds none.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (g.beta != 0) {
    dnnl::post_ops add;
    add.append_sum(1);
    attributes.set_post_ops(add);
  }
#if DNNL_VERSION_MAJOR < 3
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(p.a, p.b, p.c), attributes,
                                                 engine());
#else
  const dnnl::matmul::primitive_desc description(engine(), p.a, p.b, p.c, attributes);
#endif
  p.scratch = description.scratchpad_desc();
  p.primitive = dnnl::matmul(description);
  return p;
}

// Choosing and describing a kernel costs more than a small product, so each thread keeps the
// primitives that it used. When there are kMost, the thread drops them all: batches of many lengths
// would fill the memory.
template <class T>
const Product& product_of(const Gemm<T>& g) {
  constexpr std::size_t kMost = 512;
  thread_local std::map<Key, Product> products;
  const Key key = key_of(g);
  const auto found = products.find(key);
  if (found != products.end()) return found->second;
  if (products.size() >= kMost) products.clear();
  return products.emplace(key, make_product(g)).first->second;
}

// A matrix as oneDNN wants it: oneDNN takes no pointers to const.
memory matrix(const memory::desc& description, const void* data) {
  return {description, engine(), const_cast<void*>(data)};
}

// A function of the OpenMP that oneDNN uses; null if it uses none. A plugin's libraries are not
// among those of the whole program, so oneDNN's own are searched, too.
void* openmp_function(const char* name) {
  if (void* found = ::dlsym(RTLD_DEFAULT, name)) return found;
  Dl_info library{};
  if (::dladdr(reinterpret_cast<const void*>(&dnnl_version), &library) == 0) return nullptr;
  void* handle = ::dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : ::dlsym(handle, name);
}

// oneDNN takes its number of threads from OpenMP's setting for the calling thread. OpenBLAS 0.3.21
// makes that setting along with its own; 0.3.29 (Debian 13) does not.
void set_openmp_threads() {
  static const auto set = reinterpret_cast<void (*)(int)>(openmp_function("omp_set_num_threads"));
  thread_local int told = 0;
  if (set != nullptr && told != library_threads()) set(told = library_threads());
}

template <class T>
void execute(const Gemm<T>& g) {
  set_openmp_threads();
  try {
    thread_local dnnl::stream stream(engine());
    const Product& p = product_of(g);
    const Scratch scratch(p.scratch.get_size());
    p.primitive.execute(stream, {{DNNL_ARG_SRC, matrix(p.a, g.a)},
                                 {DNNL_ARG_WEIGHTS, matrix(p.b, g.b)},
                                 {DNNL_ARG_DST, matrix(p.c, g.c)},
                                 {DNNL_ARG_SCRATCHPAD, matrix(p.scratch, scratch.data())}});
    stream.wait();
  } catch (const dnnl::error& error) {
    fail("[gemm] oneDNN: {}", error.what());
  }
}

// The numbers of a stored matrix whose rows have one number each, side by side; empty if they are
// neighbours already, and if rows are longer. oneDNN 3.7.2 needs this with AVX-512: it takes the
// numbers of A's only row, and of C's only column, for neighbours, whatever the strides say.
template <class T>
std::vector<T> gathered(const T* x, std::int64_t rows, std::int64_t row_length, std::int64_t ld) {
  if (row_length != 1 || ld <= 1) return {};
  std::vector<T> together(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) together[static_cast<std::size_t>(i)] = x[i * ld];
  return together;
}

template <class T>
void multiply_part(const Gemm<T>& g) {
  const std::vector<T> a = gathered(g.a, g.ta ? g.k : g.m, g.ta ? g.m : g.k, g.lda);
  const std::vector<T> b = gathered(g.b, g.tb ? g.n : g.k, g.tb ? g.k : g.n, g.ldb);
  auto c = gathered(g.c, g.m, g.n, g.ldc);
  Gemm<T> h = g;
  if (!a.empty()) h.a = a.data();
  if (!b.empty()) h.b = b.data();
  if (!c.empty()) h.c = c.data();
  execute(h);
  for (std::size_t i = 0; i < c.size(); ++i) g.c[static_cast<std::int64_t>(i) * g.ldc] = c[i];
}

// How many terms of f32 are added up at a time. oneDNN 2.6 itself cuts long sums after 384 terms,
// and these after 256: their errors are then as small as those of OpenBLAS's sums, 0.30e-6 of the
// sum's size in place of 0.37e-6. The longest sums would gain little: as many roundings come from
// adding up the parts.
constexpr std::int64_t kDepth = 512, kLongest = 16384;

template <class T>
void multiply(const Gemm<T>& g) {
  check(g.alpha == 1 && (g.beta == 0 || g.beta == 1),
        "[gemm] oneDNN is asked with alpha 1 and beta 0 or 1, not with {} and {}", g.alpha, g.beta);
  if (g.k == 0) {
    for (std::int64_t i = 0; i < g.m && g.beta == 0; ++i) {
      std::fill_n(g.c + i * g.ldc, g.n, typename Gemm<T>::Sum{0});
    }
    return;
  }
  const std::int64_t depth = std::is_same_v<T, float> && g.k <= kLongest ? kDepth : g.k;
  for (std::int64_t begin = 0; begin < g.k; begin += depth) {
    Gemm<T> part = g;
    part.k = std::min(depth, g.k - begin);
    part.a += g.ta ? begin * g.lda : begin;
    part.b += g.tb ? begin : begin * g.ldb;
    if (begin > 0) part.beta = 1;
    multiply_part(part);
  }
}

bool onednn_has(dnnl::cpu_isa needed) {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & static_cast<unsigned>(needed)) == static_cast<unsigned>(needed);
}
// Without these instructions, oneDNN adds up pairs in 16 bits, which overflow.
bool onednn_adds_int8_exactly() {
  return onednn_has(dnnl::cpu_isa::avx512_core_vnni) || onednn_has(dnnl::cpu_isa::avx2_vnni);
}

}  // namespace

Bf16Instructions onednn_bf16() {
  if (onednn_has(dnnl::cpu_isa::avx512_core_amx)) return Bf16Instructions::amx;
  return onednn_has(dnnl::cpu_isa::avx512_core_bf16) ? Bf16Instructions::avx512
                                                     : Bf16Instructions::none;
}

// oneDNN adds up in an order that depends on the sizes of the call.
template <class T>
const Multiplier<T>* onednn() {
  if constexpr (std::is_same_v<T, double>) {
    return nullptr;
  } else {
    static constexpr Multiplier<T> multiplier{.multiply = multiply<T>, .pieces = Pieces::by_shape};
    const bool has = std::is_same_v<T, bf16>          ? onednn_bf16() != Bf16Instructions::none
                     : std::is_same_v<T, std::int8_t> ? onednn_adds_int8_exactly()
                                                      : true;
    return has ? &multiplier : nullptr;
  }
}

std::string describe_onednn(Precision precision) {
  if (precision == Precision::bf16 && onednn_bf16() == Bf16Instructions::none)
    return "oneDNN finds no bf16 instructions in this processor";
  if (precision == Precision::int8 && !onednn_adds_int8_exactly())
    return "oneDNN finds no instructions for sums of 8-bit products in this processor";
  const dnnl_version_t& v = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", v.major, v.minor, v.patch);
}

}  // namespace tapegrad

#else

namespace tapegrad {

template <class T>
const Multiplier<T>* onednn() {
  return nullptr;
}

Bf16Instructions onednn_bf16() { return Bf16Instructions::none; }
std::string describe_onednn(Precision) { return "this build has no oneDNN (libdnnl-dev)"; }

}  // namespace tapegrad

#endif

namespace tapegrad {
template const Multiplier<float>* onednn();
template const Multiplier<double>* onednn();
template const Multiplier<bf16>* onednn();
template const Multiplier<std::int8_t>* onednn();
}  // namespace tapegrad
