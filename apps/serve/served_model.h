#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/sample/speculation.h"
#include "tapegrad/base/version.h"
#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/run/models/json_mask.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::serve {

// A model by its name for clients: the one that is there, or the same with one of its adapters.
struct NamedModel {
  std::string name;
  std::optional<std::int64_t> adapter = {};  // see nn::GenerateOptions
};

// The model that is served, and what is known of it once. The weights belong to the engine's
// thread: they may change (see FollowedModel); config and tokenizer stay.
struct ServedModel {
  const run::TextModel& model;
  std::vector<NamedModel> named;  // the model without adapters first
  std::int64_t context;           // tokens that a text may have, its prompt included
  std::int64_t created;           // seconds since 1970
  std::optional<data::ChatTemplate> chat;
  std::vector<data::Token> answer_ends;  // by the template, beside the tokenizer's ends()
  run::JsonMasks& json_masks;            // for answers that must be JSON
  std::size_t longest_token;             // in bytes
  std::optional<std::int64_t> reasoning_budget = {};  // the most tokens of reasoning
  // How tokens are proposed, and the draft, if there is one.
  sampling::SpeculationOptions speculation = {};
  const nn::Decoder* draft = nullptr;

  const std::string& name() const { return named.front().name; }
  std::int64_t vocab_size() const { return model.gpt.config.vocab_size; }
};

// How a model is served, beside the bounds of its engine.
struct ServedOptions {
  bool special_in_messages = false;  // messages may spell special tokens
  // See ServedModel.
  std::optional<std::int64_t> reasoning_budget = {};
  sampling::SpeculationOptions speculation = {};
  const nn::Decoder* draft = nullptr;
};

// The masks of a model for answers of one request, behind which others wait to be read; up to
// --max-waiting requests have one each, of 5 MB.
run::JsonMasks masks_of(const data::Tokenizer& tokenizer);
// What is known of a model once. Model and masks must outlive it. Error for a template that is
// none.
ServedModel served_model(const run::TextModel& model, std::vector<NamedModel> named,
                         std::int64_t context, run::JsonMasks& json_masks,
                         const ServedOptions& options);

// The name of the program that made an answer: the same text can be expected of the same one.
inline std::string fingerprint() { return "tapegrad-" TAPEGRAD_VERSION; }

}  // namespace tapegrad::serve
