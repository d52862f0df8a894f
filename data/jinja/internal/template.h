#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/jinja/internal/run.h"
#include "tapegrad/data/jinja/internal/value.h"

namespace tapegrad::data::jinja {

struct Parsed;

// The door of this room: the language of Jinja 3.1, as transformers configures it for chat
// templates (sandboxed, immutable, trim_blocks, lstrip_blocks, loop controls, {% generation %}).
// Not here are include, import and extends, which need other templates; `do`, which transformers
// does not have; and what no known chat template uses, an error by its name: see docs/chat.md.
class Template {
 public:
  explicit Template(std::string_view source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  struct Rendered {
    std::string text;
    std::vector<std::pair<std::size_t, std::size_t>> generated;  // bytes, of {% generation %}
  };
  // `variables`: by their names, with the last one of a name in force. Error: TemplateError.
  Rendered render(const std::vector<std::pair<std::string, Value>>& variables,
                  const RenderLimits& limits = {}) const;

  bool marks_generations() const;
  bool reads(std::string_view variable) const;

 private:
  std::unique_ptr<const Parsed> parsed_;
};

// Error for an integer of more than 64 bits.
Value value_of(const Json& json);

}  // namespace tapegrad::data::jinja
