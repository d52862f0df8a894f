#pragma once

#include "tapegrad/autograd/base/json_file.h"
#include "tapegrad/run/config.h"

namespace tapegrad::run {

Json json_of(const Value& value);

}  // namespace tapegrad::run
