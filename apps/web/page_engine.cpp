// What the page calls. Compiled by scripts/web.sh alone.

#include <emscripten.h>

#include <string>

#include "tapegrad/apps/web/web_engine.h"

// The answer stays until the next request.
extern "C" EMSCRIPTEN_KEEPALIVE const char* tapegrad_answer(const char* request) {
  static std::string said;
  said = tapegrad::web::answer(request);
  return said.c_str();
}
