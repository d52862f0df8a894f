// An OpenBLAS that is older than the processor: it chooses kernels of 2004 unless OPENBLAS_CORETYPE
// names others. All else is the real one's.

#include <dlfcn.h>

#include <cstdlib>

extern "C" char* openblas_get_corename() {
  static char oldest[] = "Prescott";
  const char* told = std::getenv("OPENBLAS_CORETYPE");
  if (told == nullptr) return oldest;
  const auto real = reinterpret_cast<char* (*)()>(::dlsym(RTLD_NEXT, "openblas_get_corename"));
  return real();
}
