#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tapegrad/apps/inspect/inside.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::inspect {

// A look inside a model, with what a reader of it needs to know beside it.
struct Look {
  std::string model;  // the path by which it was opened
  std::optional<std::int64_t> step;
  std::function<std::string(data::Token)> bytes_of;  // the bytes of a token
  std::int64_t text_tokens = 0;  // of the whole text; if they are more, inside has the last ones
  Inside inside;
  bool cut() const { return text_tokens > std::ssize(inside.tokens); }
};

// json_of() writes at most so many bytes of JSON.
inline constexpr std::int64_t kMostJson = 8'000'000;
// How many tokens can be shown of a model: its block size, 256, or fewer if the attention of its
// heads would not fit into kMostJson. Error if one token does not.
std::int64_t most_tokens(const nn::DecoderConfig& config);

// {"model", "step", "tokens": [{"id", "text"}], "text_tokens", "cut" (only true), "loss",
// "predictions": [{"next", "best": [{"id", "text", "probability"}]}], "attention": [layer][head]
// [lower triangle, in thousandths], "attention_blocks" (the blocks of these layers, counted from 0,
// only if some block has a convolution in place of attention), "lens": [layer][position]{"text",
// "probability", "next"}, "input_gradient"}. Numbers have five digits.
Json json_of(const Look& look);
// The text of that JSON, on one line.
std::string json_text(const Look& look);
// A page in one file that draws the JSON: it asks for no other file.
std::string html_of(const Look& look);
// For a terminal: a line for each token, with what the model found likelier.
std::string text_of(const Look& look);

}  // namespace tapegrad::inspect
