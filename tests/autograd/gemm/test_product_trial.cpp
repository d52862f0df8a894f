// The check of a library at its first use: right ones pass, and each kind of wrong one is named.

#include "tapegrad/autograd/gemm/internal/product_trial.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

enum class Fault {
  none,
  row_is_dense,         // takes the elements of a transposed A of one row for neighbours
  forgets_beta,         // adds to C always
  overwrites,           // never adds to C
  column_is_dense,      // writes C of one column without its gaps
  ignores_ldb,          // takes the rows of B for neighbours
  writes_between_rows,  // also where C has gaps
  reads_wrong_tail,     // reads one column too many if k is no multiple of 32
  rounds_to_half,       // keeps 11 bits of a product
};

double value(bf16 x) { return static_cast<double>(to_float(x)); }
double value(float x) { return static_cast<double>(x); }
double value(double x) { return x; }

template <class T, Fault F>
void multiply(const Gemm<T>& g) {
  const std::int64_t lda = F == Fault::row_is_dense && g.ta && g.m == 1 ? 1 : g.lda;
  const std::int64_t ldb = F == Fault::ignores_ldb ? (g.tb ? g.k : g.n) : g.ldb;
  const std::int64_t ldc = F == Fault::column_is_dense && g.n == 1 ? 1 : g.ldc;
  for (std::int64_t i = 0; i < g.m; ++i) {
    const std::int64_t columns = F == Fault::writes_between_rows ? std::min(g.n + 1, ldc) : g.n;
    for (std::int64_t j = g.n; j < columns; ++j) g.c[i * ldc + j] = 0;
    for (std::int64_t j = 0; j < g.n; ++j) {
      double sum = 0;
      const bool tail = F == Fault::reads_wrong_tail && !g.ta && g.lda > g.k && g.k % 32 != 0;
      for (std::int64_t l = 0; l < g.k; ++l) {
        const std::int64_t at = tail && l + 1 == g.k ? l + 1 : l;
        double term = value(g.a[g.ta ? l * lda + i : i * lda + at]) *
                      value(g.b[g.tb ? j * ldb + l : l * ldb + j]);
        if (F == Fault::rounds_to_half) term = std::round(term * 2048) / 2048;
        sum += term;
      }
      auto& c = g.c[i * ldc + j];
      const bool add = F == Fault::forgets_beta || (F != Fault::overwrites && g.beta != 0);
      c = static_cast<typename Gemm<T>::Sum>(sum + (add ? static_cast<double>(c) : 0));
    }
  }
}

template <Fault F>
std::string found() {
  const std::string in_f32 = trial<float>({.multiply = multiply<float, F>});
  // What is found does not depend on the type; only roundings do.
  CHECK(trial<double>({.multiply = multiply<double, F>}).empty() == in_f32.empty());
  CHECK(trial<bf16>({.multiply = multiply<bf16, F>}).empty() == in_f32.empty());
  return in_f32.substr(0, in_f32.find(" is off by "));
}

}  // namespace

TEST_CASE("a trial of right products finds nothing", "[gemm]") {
  CHECK(found<Fault::none>() == "");
}

TEST_CASE("a trial names the product that a library gets wrong", "[gemm]") {
  CHECK(found<Fault::row_is_dense>() == "1×70×300 (A transposed, rows apart)");
  CHECK(found<Fault::column_is_dense>() == "70×1×37 (rows apart, added to C)");
  CHECK(found<Fault::forgets_beta>() == "1×70×300");  // the NaN in C shows
  CHECK(found<Fault::overwrites>() == "1×70×300 (rows apart, added to C)");
  CHECK(found<Fault::ignores_ldb>() == "1×70×300 (rows apart, added to C)");
  CHECK(found<Fault::writes_between_rows>() == "1×70×300 (rows apart, added to C)");
  CHECK(found<Fault::reads_wrong_tail>() == "1×70×300 (rows apart, added to C)");
  CHECK(found<Fault::rounds_to_half>() == "1×70×300");
  CHECK(trial<float>({.multiply = multiply<float, Fault::row_is_dense>}).find("off by ") !=
        std::string::npos);
}

TEST_CASE("a trial tries a library's own way for one row as well", "[gemm]") {
  const auto right = multiply<float, Fault::none>;
  CHECK(trial<float>({.multiply = right, .multiply_row = right}) == "");
  CHECK(trial<float>({.multiply = right, .multiply_row = multiply<float, Fault::row_is_dense>})
            .starts_with("1×70×300 (A transposed, rows apart) is off by "));
}

TEMPLATE_TEST_CASE("the libraries of this system pass their trials", "[gemm]", float, double,
                   bf16) {
  for (const Multiplier<TestType>* by : {openblas<TestType>(), onednn<TestType>()}) {
    if (by != nullptr) CHECK(trial(*by) == "");
  }
}
