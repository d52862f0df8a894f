#include "tapegrad/tests/places.h"

namespace tapegrad::places {

const char* const kSources = TAPEGRAD_SOURCE_DIR;
const char* const kPrograms = TAPEGRAD_PROGRAM_DIR;
const char* const kMpirun = TAPEGRAD_MPIRUN;
const char* const kOldOpenblas = TAPEGRAD_OLD_OPENBLAS;
const char* const kPublicHeaders = TAPEGRAD_PUBLIC_HEADERS;

}  // namespace tapegrad::places
