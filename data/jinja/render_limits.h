#pragma once

#include <cstddef>
#include <functional>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

// The bounds of a rendering: a template comes with a model, from anybody.
struct RenderLimits {
  std::size_t steps = 50'000'000;  // statements, expressions, items; bytes, many for one
  std::size_t text_bytes = std::size_t{64} << 20;      // of the text
  std::size_t memory_bytes = std::size_t{1024} << 20;  // of all that is there at once
  int depth = 800;      // of macros that call macros, and of expressions
  bool strict = false;  // what is undefined is an error where it becomes text (StrictUndefined)
  // Called every few thousand steps: its exception ends the rendering.
  std::function<void()> look = {};

  // Of a conversation for which somebody waits, and others behind: about a second.
  static RenderLimits of_one_request() {
    return {.steps = 10'000'000,
            .text_bytes = std::size_t{16} << 20,
            .memory_bytes = std::size_t{256} << 20};
  }
};

}  // namespace tapegrad::data
