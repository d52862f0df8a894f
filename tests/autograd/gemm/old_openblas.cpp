// An OpenBLAS that is older than the processor: when it is loaded, it chooses kernels of 2004
// unless OPENBLAS_CORETYPE names others. All else is the real one's.

#include <dlfcn.h>

#include <cstdlib>

namespace {
const bool told = std::getenv("OPENBLAS_CORETYPE") != nullptr;
}

extern "C" char* openblas_get_corename() {
  static char oldest[] = "Prescott";
  if (!told) return oldest;
  return reinterpret_cast<char* (*)()>(::dlsym(RTLD_NEXT, "openblas_get_corename"))();
}
