#include "tapegrad/autograd/gemm/internal/openblas_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "tapegrad/base/error.h"

// Sanitizers cannot be used with RTLD_DEEPBIND.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAPEGRAD_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TAPEGRAD_SANITIZED
#endif
#endif

namespace tapegrad {
namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";
constexpr const char* kPathVariable = "TAPEGRAD_OPENBLAS";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The library that tapegrad was built with, or, on a system that has it elsewhere, what the loader
// finds by its name: an archive of programs brings one beside them.
std::string library_path() {
  const std::string path = environment(kPathVariable);
  if (!path.empty()) return path;
  const std::string built_with = TAPEGRAD_OPENBLAS_PATH;
  if (::access(built_with.c_str(), R_OK) == 0) return built_with;
  return built_with.substr(built_with.rfind('/') + 1);
}

// A host program may use an OpenBLAS of its own: ours keeps to its own symbols, and shows none.
constexpr int kLocal = RTLD_NOW | RTLD_LOCAL
#if defined(RTLD_DEEPBIND) && !defined(TAPEGRAD_SANITIZED)
                       | RTLD_DEEPBIND
#endif
    ;

class Library {
 public:
  explicit Library(std::string path) : path_(std::move(path)) { open(); }

  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    check(function != nullptr,
          "{} is not an OpenBLAS: it has no function {}. {} must name the OpenMP build's "
          "libopenblas.so.0",
          path_, name, kPathVariable);
  }

  OpenBlas functions() const {
    OpenBlas blas{};
    find(blas.sgemm, "cblas_sgemm");
    find(blas.dgemm, "cblas_dgemm");
    find(blas.sgemv, "cblas_sgemv");
    find(blas.dgemv, "cblas_dgemv");
    find(blas.set_num_threads, "openblas_set_num_threads");
    find(blas.get_parallel, "openblas_get_parallel");
    find(blas.get_config, "openblas_get_config");
    find(blas.get_corename, "openblas_get_corename");
    return blas;
  }

  // Loads it afresh with OPENBLAS_CORETYPE as given. False if it stayed loaded: the host program
  // uses the same file.
  bool reload(const std::string& core) {
    ::dlclose(handle_);
    if (void* used = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
      handle_ = used;
      return false;
    }
    struct Variable {
      explicit Variable(const std::string& value) { ::setenv(kCoreVariable, value.c_str(), 1); }
      ~Variable() { ::unsetenv(kCoreVariable); }
    } const variable(core);
    open();
    return true;
  }

 private:
  void open() {
    handle_ = ::dlopen(path_.c_str(), kLocal);
    if (handle_ != nullptr) return;
    const std::string reason = ::dlerror();
    fail(
        "OpenBLAS cannot be loaded: {}. Install libopenblas-openmp-dev, or let {} name the OpenMP "
        "build's libopenblas.so.0",
        reason, kPathVariable);
  }

  std::string path_;
  void* handle_ = nullptr;
};

// OpenBLAS's kernels for x86, by the instructions that their sgemm uses. Those with BF16 in their
// name multiply floats as fast as those without.
struct Kernels {
  std::string_view core;
  Isa isa;
};
constexpr Kernels kKernels[] = {{"Katmai", Isa::basic},      {"Coppermine", Isa::basic},
                                {"Northwood", Isa::basic},   {"Prescott", Isa::basic},
                                {"Banias", Isa::basic},      {"Atom", Isa::basic},
                                {"Core2", Isa::basic},       {"Penryn", Isa::basic},
                                {"Dunnington", Isa::basic},  {"Nehalem", Isa::basic},
                                {"Athlon", Isa::basic},      {"Opteron", Isa::basic},
                                {"Barcelona", Isa::basic},   {"Nano", Isa::basic},
                                {"Bobcat", Isa::basic},      {"Opteron_SSE3", Isa::basic},
                                {"Sandybridge", Isa::avx},   {"Bulldozer", Isa::avx},
                                {"Piledriver", Isa::avx},    {"Steamroller", Isa::avx},
                                {"Excavator", Isa::avx},     {"Haswell", Isa::avx2},
                                {"Zen", Isa::avx2},          {"SkylakeX", Isa::avx512},
                                {"Cooperlake", Isa::avx512}, {"SapphireRapids", Isa::avx512}};

std::optional<Isa> isa_of(std::string_view core) {
  const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  for (const Kernels& k : kKernels) {
    if (std::equal(core.begin(), core.end(), k.core.begin(), k.core.end(), same)) return k.isa;
  }
  return std::nullopt;
}

OpenBlas load() {
  Library library(library_path());
  OpenBlas blas = library.functions();
  check(blas.get_parallel() == OPENBLAS_OPENMP,
        "{} is not OpenBLAS's OpenMP build: install libopenblas-openmp-dev", library_path());
  const std::string own = blas.core = blas.get_corename();
  if (!environment(kCoreVariable).empty()) {
    blas.reason = fmt::format(" (by {})", kCoreVariable);
    return blas;
  }
  for (const std::string& core :
       better_kernels(own, processor_isa(), processor_has_avx512_bf16(), processor_is_amd())) {
    if (!library.reload(core)) {
      blas.reason = fmt::format(" ({} are faster, but this program had loaded it before)", core);
      break;
    }
    blas = library.functions();
    blas.core = blas.get_corename();
    if (isa_of(blas.core) > isa_of(own)) {
      blas.reason = fmt::format(" (its own choice was {})", own);
      break;
    }
  }
  return blas;
}

}  // namespace

std::vector<std::string> better_kernels(std::string_view chosen, Isa isa, bool bf16, bool amd) {
  const std::optional<Isa> has = isa_of(chosen);
  if (!has || *has >= isa) return {};
  std::vector<std::string> better;
  if (isa == Isa::avx512) {
    if (bf16) better.emplace_back("Cooperlake");
    better.emplace_back("SkylakeX");
  }
  if (isa >= Isa::avx2 && *has < Isa::avx2) better.emplace_back(amd ? "Zen" : "Haswell");
  if (isa == Isa::avx) better.emplace_back(amd ? "Bulldozer" : "Sandybridge");
  return better;
}

const OpenBlas& loaded_openblas() {
  static const OpenBlas blas = load();
  return blas;
}

}  // namespace tapegrad
