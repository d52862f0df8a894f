#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/serve/api/fields/fields.h"
#include "tapegrad/apps/serve/served_model.h"

namespace tapegrad::serve {

inline constexpr std::size_t kMostTexts = 128;  // that a request may ask for
inline constexpr std::size_t kMostStops = 16;
inline constexpr std::int64_t kMostTop = 20;  // likeliest tokens in place of one

// The fields that requests for texts share.
struct TextRequest {
  std::string model = {};  // its name
  std::int64_t n = 1;      // texts of each prompt
  nn::GenerateOptions options = {};
  bool ignore_eos = false;
  std::optional<std::int64_t> max_tokens = {};  // -1: as many as fit
  std::vector<std::string> stops = {};
  std::uint64_t seed = 0;  // of the first text; each further one has the next number
  bool stream = false, include_usage = false;
  // The field of this name. The options have the larger number if an echo asks for more.
  std::optional<std::int64_t> prompt_logprobs = {};
  bool scores_echo = false;  // log probabilities of an echo stand before those of its text
};

// Reads these fields. `new_seed` is the seed of a request that has none.
void read_text_request(Fields& fields, const ServedModel& model, std::uint64_t new_seed,
                       TextRequest& request);
// A field that says max_tokens. Refused if another one has said something else.
void read_max_tokens(Fields& fields, std::string_view name, TextRequest& request);
// The log probabilities of a prompt's tokens, as vLLM has them: of choices, and in no stream.
void read_prompt_logprobs(Fields& fields, TextRequest& request);
// The field "model", or without it the model without adapters. Refused for a name that is not
// known.
const NamedModel& read_model_name(Fields& fields, const ServedModel& model);

// Refused if a text has more bytes than so many tokens as fit can stand for.
void check_text_size(const Fields& fields, std::string_view name, const ServedModel& model,
                     std::string_view text);
// The tokens that `encode` makes of a text, once its size was checked: refused with the field's
// name for a character that the tokenizer does not have.
template <class Encode>
nn::Tokens encoded(const Fields& fields, std::string_view name, const ServedModel& model,
                   std::string_view text, const Encode& encode) {
  check_text_size(fields, name, model, text);
  try {
    return encode(text);
  } catch (const Error& error) {
    fields.refuse(name, error.what());
  }
}
// How many tokens may follow a prompt: what the request asks for, or `otherwise`, at most what the
// context has room for. Refused if the prompt or what was asked for does not fit.
std::int64_t new_tokens(const ServedModel& model, std::int64_t prompt_tokens,
                        const std::optional<std::int64_t>& asked, std::int64_t otherwise,
                        const std::string& prompt_field);
// Settles the options' max_new_tokens so. Refused for min_tokens that do not fit into it, too.
void settle_length(const Fields& fields, const ServedModel& model, std::int64_t prompt_tokens,
                   std::int64_t otherwise, const std::string& prompt_field, TextRequest& request);

// Tokens of a JSON list; refused unless each is one of the model's.
nn::Tokens tokens_of_json(Fields& fields, std::string_view name, const Json& list,
                          const ServedModel& model);

}  // namespace tapegrad::serve
