#include "tapegrad/apps/serve/api/text_request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "tapegrad/apps/sample/sampling_options.h"
#include "tapegrad/apps/serve/api/response_format.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/option_schema.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::serve {
namespace {

constexpr double kMostTemperature = 2, kMostBias = 100;
constexpr std::size_t kMostStopBytes = 512, kMostBiases = 1024;

// Reads the fields that options of `sample` are, too.
class SamplingFields : public OptionTable {
 public:
  explicit SamplingFields(Fields& fields) : fields_(fields) {}

 private:
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    if (member.type() == Member::Type::real) {
      double number = std::get<double>(member.value());
      fields_.number(name, number, rule.least, std::min(rule.most, most_of(name)));
      member.set(number);
    } else if (member.type() == Member::Type::whole64) {
      check(std::isfinite(rule.least) && std::isfinite(rule.most),
            "the option {} needs bounds to be a field of requests", name);
      std::optional<std::int64_t> number;
      fields_.integer(name, number, static_cast<std::int64_t>(rule.least),
                      static_cast<std::int64_t>(rule.most));
      if (number) member.set(*number);
    } else {  // lists have another form here
      check(member.type() == Member::Type::texts, "the option {} is no field of requests", name);
    }
  }
  static double most_of(std::string_view name) {
    return name == "temperature" ? kMostTemperature : std::numeric_limits<double>::infinity();
  }

  Fields& fields_;
};

void read_stop_tokens(Fields& fields, const ServedModel& model, TextRequest& request) {
  nn::GenerateOptions& options = request.options;
  fields.boolean("ignore_eos", request.ignore_eos);
  if (!request.ignore_eos) options.stop_tokens = model.model.tokenizer.ends();
  const Json* ids = fields.find("stop_token_ids");
  if (ids == nullptr) return;
  if (!ids->is_array()) fields.refuse_type("stop_token_ids", "a list of tokens");
  if (ids->size() > kMostBiases) {
    fields.refuse("stop_token_ids",
                  fmt::format("'stop_token_ids' has {} tokens, and {} are the most", ids->size(),
                              kMostBiases));
  }
  for (const std::int32_t token : tokens_of_json(fields, "stop_token_ids", *ids, model)) {
    options.stop_tokens.push_back(token);
  }
}

void read_sampling(Fields& fields, nn::GenerateOptions& options) {
  sampling::SamplingOptions sampling{options};
  SamplingFields of_requests(fields);
  OptionSchema(sampling).describe(of_requests);
  if (options.top_p == 0) fields.refuse("top_p", "'top_p' must be above 0");
  if (options.typical_p == 0) fields.refuse("typical_p", "'typical_p' must be above 0");
  sampling::settle_zeros(options);
  const bool penalizes = options.repetition_penalty != 1 || options.presence_penalty != 0 ||
                         options.frequency_penalty != 0;
  if (penalizes) {
    fields.fixed("repeat_last_n", Json::array(),
                 "'repetition_penalty' is of all tokens, 'presence_penalty' and "
                 "'frequency_penalty' are of all new ones");
  }
}

void read_bias(Fields& fields, const ServedModel& model, nn::GenerateOptions& options) {
  const Json* bias = fields.find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) fields.refuse_type("logit_bias", "an object of tokens and numbers");
  if (bias->size() > kMostBiases) {
    fields.refuse("logit_bias", fmt::format("'logit_bias' has {} tokens, and {} are the most",
                                            bias->size(), kMostBiases));
  }
  for (const auto& [name, value] : bias->items()) {
    const auto token = number_of<std::int64_t>(name);
    if (!token || *token < 0 || *token >= model.vocab_size()) {
      fields.refuse("logit_bias", fmt::format("'logit_bias' must name tokens by numbers below {}",
                                              model.vocab_size()));
    }
    const double number = value.is_number() ? value.get<double>() : 2 * kMostBias;
    if (!(number >= -kMostBias && number <= kMostBias)) {
      fields.refuse("logit_bias", fmt::format("'logit_bias' must have numbers from {} to {}",
                                              -kMostBias, kMostBias));
    }
    options.logit_bias[static_cast<std::int32_t>(*token)] = number;
  }
}

void read_stream(Fields& fields, TextRequest& request) {
  fields.boolean("stream", request.stream);
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!request.stream) fields.refuse("stream_options", "'stream_options' needs 'stream': true");
  Fields of_stream = fields.inside(*options, kInStream, "stream_options");
  of_stream.boolean("include_usage", request.include_usage);
  of_stream.end();
}

}  // namespace

const NamedModel& read_model_name(Fields& fields, const ServedModel& model) {
  std::string name;
  if (!fields.text("model", name)) return model.named.front();
  const auto found = std::ranges::find(model.named, name, &NamedModel::name);
  if (found != model.named.end()) return *found;
  std::string names;
  for (const NamedModel& one : model.named) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", one.name);
  }
  throw Refused({.status = 404,
                 .message = fmt::format("there is no model '{}' here, only {}", name, names),
                 .param = "model",
                 .code = "model_not_found"});
}

void check_text_size(const Fields& fields, std::string_view name, const ServedModel& model,
                     std::string_view text) {
  // Normalisation joins marks with their letters: at most three bytes become one (NFC of Hangul).
  constexpr std::size_t kMostShrinking = 3;
  const auto context = static_cast<std::size_t>(model.context);
  const std::size_t most = kMostShrinking * context * model.longest_token;
  if (text.size() <= most) return;
  fields.refuse(name,
                fmt::format("'{}' has {} bytes, which are more than {} tokens",
                            fields.path_of(name), text.size(), model.context),
                "context_length_exceeded");
}

void read_max_tokens(Fields& fields, std::string_view name, TextRequest& request) {
  constexpr std::int64_t kAll = -1;  // as llama.cpp has it
  std::optional<std::int64_t> most;
  fields.integer(name, most, kAll, INT32_MAX);
  if (!most) return;
  if (request.max_tokens && request.max_tokens != most) {
    fields.refuse("max_tokens", fmt::format("'max_tokens' and '{}' differ", name));
  }
  request.max_tokens = most;
}

void read_prompt_logprobs(Fields& fields, TextRequest& request) {
  constexpr const char* kField = "prompt_logprobs";
  fields.integer(kField, request.prompt_logprobs, 0, kMostTop);
  if (request.prompt_logprobs && request.stream) {
    fields.refuse(kField, "'prompt_logprobs' are no part of a stream: leave 'stream' out");
  }
  request.options.prompt_logprobs = request.prompt_logprobs;
}

void read_text_request(Fields& fields, const ServedModel& model, std::uint64_t new_seed,
                       TextRequest& request) {
  const NamedModel& named = read_model_name(fields, model);
  request.model = named.name;
  request.options.adapter = named.adapter;
  model.speculation.apply(request.options, model.draft);
  fields.integer("n", request.n, 1, static_cast<std::int64_t>(kMostTexts));
  for (const char* name : {"max_tokens", "n_predict", "max_new_tokens"}) {
    read_max_tokens(fields, name, request);
  }
  read_sampling(fields, request.options);
  read_stop_tokens(fields, model, request);
  read_bias(fields, model, request.options);
  request.stops = one_or_more_texts(fields, "stop", kMostStops);
  for (const std::string& stop : request.stops) {
    if (stop.size() <= kMostStopBytes) continue;
    fields.refuse("stop", fmt::format("a text of 'stop' has {} bytes, and {} are the most",
                                      stop.size(), kMostStopBytes));
  }
  std::optional<std::int64_t> seed;
  fields.integer("seed", seed, INT64_MIN, INT64_MAX);
  request.seed = seed ? static_cast<std::uint64_t>(*seed) : new_seed;
  read_stream(fields, request);
  read_response_format(fields, model, request.options);
}

std::int64_t new_tokens(const ServedModel& model, std::int64_t prompt_tokens,
                        const std::optional<std::int64_t>& asked, std::int64_t otherwise,
                        const std::string& prompt_field) {
  if (asked && *asked < 0) {
    return new_tokens(model, prompt_tokens, std::nullopt, model.context, prompt_field);
  }
  const std::int64_t room = model.context - prompt_tokens;
  if (room >= 0 && (!asked || *asked <= room)) return asked.value_or(std::min(otherwise, room));
  const std::string wanted = asked ? fmt::format(" and {} new ones", *asked) : "";
  throw Refused(
      {.message = fmt::format("a text has room for {} tokens here, and the prompt has {}{}",
                              model.context, prompt_tokens, wanted),
       .param = room < 0 ? prompt_field : "max_tokens",
       .code = "context_length_exceeded"});
}

void settle_length(const Fields& fields, const ServedModel& model, std::int64_t prompt_tokens,
                   std::int64_t otherwise, const std::string& prompt_field, TextRequest& request) {
  nn::GenerateOptions& options = request.options;
  options.max_new_tokens =
      new_tokens(model, prompt_tokens, request.max_tokens, otherwise, prompt_field);
  if (options.min_tokens <= options.max_new_tokens) return;
  fields.refuse("min_tokens", fmt::format("'min_tokens' is {}, and a text may have {} tokens",
                                          options.min_tokens, options.max_new_tokens));
}

nn::Tokens tokens_of_json(Fields& fields, std::string_view name, const Json& list,
                          const ServedModel& model) {
  nn::Tokens tokens;
  for (const Json& element : list) {
    const std::int64_t token =
        element.is_number_integer() && !(element.is_number_unsigned() &&
                                         element.get<std::uint64_t>() > std::uint64_t{INT32_MAX})
            ? element.get<std::int64_t>()
            : -1;
    if (token < 0 || token >= model.vocab_size()) {
      fields.refuse(name, fmt::format("a token of '{}' must be a whole number below {}",
                                      fields.path_of(name), model.vocab_size()));
    }
    tokens.push_back(static_cast<std::int32_t>(token));
  }
  return tokens;
}

}  // namespace tapegrad::serve
