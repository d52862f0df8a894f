#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "tapegrad/apps/serve/api/fields/fields.h"
#include "tapegrad/apps/serve/api/fields/template_words.h"

namespace tapegrad::serve {

constexpr std::size_t kMostCalls = 1024;  // of a message

// Checks the calls of a conversation's answers, and that each result is of a call before it.
class EarlierCalls {
 public:
  // `words`: of the template. They must outlive it.
  explicit EarlierCalls(TemplateWords& words) : words_(words) {}
  // The members "tool_calls" and "tool_call_id" of the next message. Refused for a call without a
  // name; for arguments that are neither an object nor the text of one; for a result that names
  // no call before it, or none at all though all of those have ids.
  void read(Fields& message, std::string_view role);

 private:
  void read_call(Fields call);

  TemplateWords& words_;
  std::set<std::string> ids_;
  bool any_without_id_ = false;
};

}  // namespace tapegrad::serve
