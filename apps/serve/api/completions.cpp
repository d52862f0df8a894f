#include "tapegrad/apps/serve/api/completions.h"

#include <algorithm>
#include <utility>

#include "tapegrad/apps/serve/api/choices_format.h"
#include "tapegrad/data/tokenize/decode_text.h"

namespace tapegrad::serve {
namespace {

constexpr std::int64_t kUsualTokens = 16;

class CompletionFormat : public ChoicesFormat {
 public:
  CompletionFormat(const TextRequest& request, const Asked& asked)
      : ChoicesFormat(request, "cmpl-" + asked.id, {"text_completion", "text_completion"}),
        tokenizer_(asked.model.model.tokenizer),
        logprobs_(request.options.logprobs),
        tops_(request.options.top_logprobs),
        prompt_logprobs_(request.prompt_logprobs) {}

 private:
  Json choice(const TextPart& part) const override {
    Json json = {{"text", part.text},
                 {"index", part.index},
                 {"logprobs", logprobs_ ? logprobs(part.tokens) : Json()},
                 {"finish_reason", part.finish ? Json(*part.finish) : Json()}};
    if (prompt_logprobs_) {
      json["prompt_logprobs"] = prompt_logprobs_of(tokenizer_, part.prompt, *prompt_logprobs_);
    }
    return json;
  }
  std::optional<Json> first(std::size_t) const override { return std::nullopt; }
  std::vector<Json> pieces(const TextPart& part) const override { return {choice(part)}; }
  std::string text_of(std::int32_t token) const {
    return legacy_token(tokenizer_.token_bytes(token));
  }
  Json likeliest(const ShownToken& shown) const {
    if (!shown.scored || tops_ == 0) return {};
    Json top = Json::object();
    const auto add = [&](std::int32_t token, double logprob) {
      const std::string text = text_of(token);
      if (!top.contains(text)) top[text] = shown_logprob(logprob);
    };
    for (const nn::TokenLogprob& t : first_of(shown.token.top, tops_)) add(t.token, t.logprob);
    add(shown.token.token, shown.token.logprob);
    return top;
  }
  Json logprobs(const std::vector<ShownToken>& tokens) const {
    Json names = Json::array(), numbers = Json::array(), tops = Json::array(),
         offsets = Json::array();
    for (const ShownToken& shown : tokens) {
      names.push_back(text_of(shown.token.token));
      numbers.push_back(shown.scored ? Json(shown_logprob(shown.token.logprob)) : Json());
      tops.push_back(likeliest(shown));
      offsets.push_back(shown.offset);
    }
    return {{"tokens", std::move(names)},
            {"token_logprobs", std::move(numbers)},
            {"top_logprobs", tops_ > 0 ? std::move(tops) : Json()},
            {"text_offset", std::move(offsets)}};
  }

  const data::Tokenizer& tokenizer_;
  const bool logprobs_;
  const std::int64_t tops_;
  const std::optional<std::int64_t> prompt_logprobs_;
};

TextPrompt prompt_of_text(const ServedModel& model, Fields& fields, const std::string& text,
                          bool echo) {
  TextPrompt prompt;
  prompt.tokens = encoded(fields, "prompt", model, text, [&](std::string_view whole) {
    if (echo) prompt.unseen = model.model.tokenizer.encode(whole).size();
    return model.model.tokens_of(whole);
  });
  if (!echo) return prompt;
  prompt.echo = text;
  prompt.unseen = prompt.tokens.size() - prompt.unseen;
  return prompt;
}

TextPrompt prompt_of_tokens(const ServedModel& model, Fields& fields, const Json& list, bool echo) {
  TextPrompt prompt{.tokens = tokens_of_json(fields, "prompt", list, model)};
  if (prompt.tokens.empty()) fields.refuse("prompt", "'prompt' must have at least one token");
  if (!echo) return prompt;
  new_tokens(model, std::ssize(prompt.tokens), std::nullopt, 0, "prompt");  // before its text
  Utf8Stream characters;
  std::string text = characters.push(data::decode_text(model.model.tokenizer, prompt.tokens));
  prompt.echo = text + characters.flush();
  return prompt;
}

// A text, a list of texts, a list of tokens, or a list of such lists.
std::vector<TextPrompt> read_prompts_field(const ServedModel& model, Fields& fields, bool echo) {
  constexpr const char* kForms = "a text, a list of tokens, or a list of either";
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return {prompt_of_text(model, fields, "", echo)};
  if (prompt->is_string()) return {prompt_of_text(model, fields, prompt->get<std::string>(), echo)};
  if (!prompt->is_array() || prompt->empty()) fields.refuse_type("prompt", kForms);
  if (prompt->front().is_number()) return {prompt_of_tokens(model, fields, *prompt, echo)};
  if (prompt->size() > kMostTexts) {
    fields.refuse("prompt", fmt::format("'prompt' has {} prompts, and {} are the most",
                                        prompt->size(), kMostTexts));
  }
  std::vector<TextPrompt> prompts;
  for (const Json& element : *prompt) {
    if (element.is_string()) {
      prompts.push_back(prompt_of_text(model, fields, element.get<std::string>(), echo));
    } else if (element.is_array()) {
      prompts.push_back(prompt_of_tokens(model, fields, element, echo));
    } else {
      fields.refuse_type("prompt", kForms);
    }
  }
  return prompts;
}

}  // namespace

std::unique_ptr<Job> completions(const Json& body, const Asked& asked) {
  const ServedModel& model = asked.model;
  Fields fields(body, kInCompletion, *asked.ignored);
  TextRequest request;
  read_text_request(fields, model, asked.new_seed, request);
  bool echo = false;
  fields.boolean("echo", echo);
  std::optional<std::int64_t> logprobs;
  fields.integer("logprobs", logprobs, 0, kMostTop);
  read_prompt_logprobs(fields, request);
  std::vector<TextPrompt> prompts = read_prompts_field(model, fields, echo);
  fields.end();
  const auto texts = prompts.size() * static_cast<std::size_t>(request.n);
  if (texts > kMostTexts) {
    fields.refuse("n", fmt::format("{} prompts, {} texts each: {} texts are the most",
                                   prompts.size(), request.n, kMostTexts));
  }
  request.options.logprobs = logprobs.has_value();
  request.options.top_logprobs = logprobs.value_or(0);
  request.scores_echo = echo && logprobs;
  if (request.scores_echo) {
    auto& most = request.options.prompt_logprobs;
    most = std::max(most.value_or(0), *logprobs);
  }
  std::int64_t longest = 0;
  for (const TextPrompt& prompt : prompts) {
    longest = std::max(longest, std::ssize(prompt.tokens));
  }
  settle_length(fields, model, longest, kUsualTokens, "prompt", request);
  auto format = std::make_unique<CompletionFormat>(request, asked);
  return std::make_unique<TextJob>(model, request, std::move(prompts), std::move(format),
                                   asked.reply());
}

}  // namespace tapegrad::serve
