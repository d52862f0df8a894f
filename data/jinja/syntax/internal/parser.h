#pragma once

#include <set>
#include <string>
#include <string_view>

#include "tapegrad/data/jinja/internal/statements.h"

namespace tapegrad::data::jinja {

struct Parsed {
  Body body;
  std::set<std::string, std::less<>> names;  // of the variables that are read somewhere
  bool marks_generations = false;
  // True if each {% generation %} block writes to the text itself, and not to a macro's or a
  // block's that is used later.
  bool generations_are_placed = true;
};

// Error: TemplateError, with the line.
Parsed parse(std::string_view source);

}  // namespace tapegrad::data::jinja
