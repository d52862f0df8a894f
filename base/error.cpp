#include "tapegrad/base/error.h"

#include <fmt/format.h>

namespace tapegrad {

void fail_with(fmt::string_view format, fmt::format_args args) {
  throw Error(fmt::vformat(format, args));
}

}  // namespace tapegrad
