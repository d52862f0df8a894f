#pragma once

#include <span>
#include <string_view>

namespace tapegrad::serve {

// The objects of requests that have fields of their own.
enum FieldPlace : unsigned {
  kInCompletion = 1,
  kInChat = 2,
  kInTemplate = 4,  // POST /apply-template
  kInEmbedding = 8,
  kInTokens = 16,  // POST /tokenize and /detokenize
  kInMessage = 32,
  kInFormat = 64,            // "response_format"
  kInSchema = 128,           // "response_format.json_schema"
  kInStream = 256,           // "stream_options"
  kInResponse = 512,         // POST /v1/responses, and in it:
  kInItem = 1024,            // of "input"
  kInPart = 2048,            // of an item's content
  kInTextOfResponse = 4096,  // "text"
  kInTextFormat = 8192,      // "text.format"
  kInReasoning = 16384,      // "reasoning"
  kInTool = 32768,           // objects in "tools", "tool_choice" and "tool_calls"
  kInText = kInCompletion | kInChat | kInResponse,
};

// What becomes of a field that other servers know and no endpoint here reads. There are four kinds
// of fields: those that an endpoint reads; those of this table, at values that change nothing of an
// answer; the same at values that would change it if they were honoured, which are refused; and all
// others, which are ignored and named.
struct FieldRule {
  unsigned places;  // FieldPlace
  std::string_view name;
  std::string_view harmless;  // values that change nothing, as a JSON list; "": all; null always
  std::string_view why = {};  // why all others are refused
};
std::span<const FieldRule> field_rules();

}  // namespace tapegrad::serve
