#include "tapegrad/apps/web/web_engine.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <numeric>

#include "tapegrad/apps/inspect/token_text.h"
#include "tapegrad/apps/inspect/views.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/run/folder/internal/config_json.h"
#include "tapegrad/run/models/formats/web_format.h"

namespace tapegrad::web {
namespace {

constexpr int kDepth = 4;  // of a description; a merge lies at it
const char* const kRequest = "the request";

Json description_in(const TensorSource& file) {
  const auto found = file.metadata().find(std::string(run::kWebDescription));
  check(found != file.metadata().end(), "{}: this is no file of export --format web", file.name());
  try {
    return parse_json<Json>(found->second, kDepth);
  } catch (const Error& error) {
    fail("{}: the description: {}", file.name(), error.what());
  }
}

std::string name_in(const std::string& path, const Json& description) {
  std::string name;
  get(path, description, "name", name);
  return name;
}

nn::DecoderConfig config_in(const std::string& path, const Json& description) {
  Json values;
  get(path, description, "model", values);
  run::Section section{"model", {}};
  for (const auto& [name, value] : values.items()) {
    section.values.emplace_back(name, run::value_of_json(name, value));
  }
  nn::DecoderConfig config;
  run::read_section(path, {.sections = {section}}, section.name, config);
  config.validate();
  return config;
}

template <class T>
T field(const Json& object, const std::string& name) {
  T value{};
  get(kRequest, object, name, value);
  return value;
}

// A list of tokens, each of which is one of the model's `vocab_size`.
std::vector<data::Token> tokens_in(const std::string& path, const Json& description,
                                   const std::string& name, std::int64_t vocab_size) {
  std::vector<std::int64_t> ids;
  get(path, description, name, ids);
  for (const std::int64_t id : ids) {
    check(id >= 0 && id < vocab_size, "{}: '{}' has a token {}, which is not one of the {}", path,
          name, id, vocab_size);
  }
  return {ids.begin(), ids.end()};
}

}  // namespace

Engine::Engine(const std::string& path)
    : file_(open_safetensors(path)),
      description_(description_in(*file_)),
      name_(name_in(path, description_)),
      config_(config_in(path, description_)),
      tokenizer_(path, description_.value("tokenizer", Json())),
      params_(file_),
      gpt_(params_, config_),
      ends_(tokens_in(path, description_, "ends", config_.vocab_size)),
      prompt_(tokens_in(path, description_, "prompt", config_.vocab_size)) {
  check(tokenizer_.size() <= config_.vocab_size,
        "{}: the tokenizer has {} tokens, and the model rows for {}", path, tokenizer_.size(),
        config_.vocab_size);
  check(!prompt_.empty(), "{}: 'prompt' has no token", path);
  std::vector<data::Token> padding(
      static_cast<std::size_t>(config_.vocab_size - tokenizer_.size()));
  std::iota(padding.begin(), padding.end(), static_cast<data::Token>(tokenizer_.size()));
  gpt_.rule_out(padding);
}

Json Engine::answer(const Json& request) {
  const auto what = field<std::string>(request, "do");
  if (what == "facts") return facts();
  if (what == "begin") return begin(request);
  if (what == "next") return next();
  if (what == "look") return look(request);
  if (what == "train") return train(request);
  if (what == "step") return step();
  fail("{}: there is nothing to do that is called '{}'", kRequest, what);
}

Json Engine::facts() const {
  return {{"name", name_},
          {"parameters", params_.count()},
          {"n_layer", config_.n_layer},
          {"n_head", config_.n_head},
          {"n_embd", config_.n_embd},
          {"block_size", config_.block_size},
          {"vocab_size", config_.vocab_size},
          {"tokenizer", description_["tokenizer"]["kind"]}};
}

Json Engine::begin(const Json& request) {
  const auto prompt = field<std::string>(request, "prompt");
  const auto top_k = field<std::int64_t>(request, "top_k");
  nn::GenerateOptions options{.max_new_tokens = field<std::int64_t>(request, "max_new_tokens"),
                              .greedy = field<bool>(request, "greedy"),
                              .temperature = field<double>(request, "temperature"),
                              .stop_tokens = ends_,
                              .logprobs = true,
                              .top_logprobs = std::min(kBest, config_.vocab_size)};
  if (top_k != 0) options.top_k = top_k;
  options.validate();
  std::vector<nn::Tokens> prompts = {prompt.empty() ? prompt_ : tokenizer_.encode(prompt)};
  const std::size_t read = prompts[0].size();
  characters_ = {};
  stream_ = std::make_unique<nn::TokenStream>(
      gpt_, nn::source_of(std::move(prompts), options, field<std::uint64_t>(request, "seed")));
  return {{"tokens", read}};
}

Json Engine::next() {
  check(stream_ != nullptr, "no text was begun");
  const auto token = stream_->next();
  if (!token) {
    stream_ = nullptr;
    return {{"text", characters_.flush()}, {"end", true}};
  }
  Json best = Json::array();
  for (const auto& [id, logprob] : token->top) {
    best.push_back({{"id", id},
                    {"text", inspect::token_text(tokenizer_.bytes(id))},
                    {"probability", std::exp(logprob)}});
  }
  return {{"text", characters_.push(tokenizer_.bytes(token->token))},
          {"id", token->token},
          {"probability", std::exp(token->logprob)},
          {"best", std::move(best)}};
}

Json Engine::look(const Json& request) const {
  std::vector<data::Token> tokens = tokenizer_.encode(field<std::string>(request, "text"));
  const auto all = std::ssize(tokens);
  tokens.erase(tokens.begin(),
               tokens.end() - std::min<std::int64_t>(all, inspect::most_tokens(config_)));
  return inspect::json_of(
      {.model = name_,
       .step = {},
       .bytes_of = [&](data::Token token) { return std::string(tokenizer_.bytes(token)); },
       .text_tokens = all,
       .inside = inspect::look_inside(gpt_, tokens)});
}

Json Engine::train(const Json& request) {
  std::vector<data::Token> tokens = tokenizer_.encode(field<std::string>(request, "text"));
  const auto batch_size = field<std::int64_t>(request, "batch_size");
  const auto learning_rate = field<double>(request, "learning_rate");
  check(std::ssize(tokens) >= 2, "a text of {} tokens is too short to learn", tokens.size());
  check(batch_size >= 1 && batch_size <= 256, "batch_size {} is not from 1 to 256", batch_size);
  check(learning_rate > 0 && learning_rate <= 1, "learning_rate {} is not above 0 and at most 1",
        learning_rate);
  const std::int64_t length = std::min<std::int64_t>(config_.block_size, std::ssize(tokens) - 1);
  training_.reset(new Training{std::move(tokens), batch_size, length, learning_rate,
                               Rng(field<std::uint64_t>(request, "seed")),
                               optim::AdamW(params_.parameters(), {.beta2 = 0.99})});
  return {{"tokens", training_->tokens.size()}};
}

Json Engine::step() {
  check(training_ != nullptr, "there is no text to learn");
  stream_ = nullptr;  // its keys and values are those of other weights
  Training& t = *training_;
  std::vector<std::int32_t> inputs, targets;
  for (std::int64_t b = 0; b < t.batch_size; ++b) {
    const auto window = t.tokens.begin() + t.rng.randint(std::ssize(t.tokens) - t.length);
    inputs.insert(inputs.end(), window, window + t.length);
    targets.insert(targets.end(), window + 1, window + t.length + 1);
  }
  const Shape shape{t.batch_size, t.length};
  t.optimizer.zero_grad();  // a step that failed has left some
  Tape tape;
  const Tensor loss = gpt_.loss(Tensor::from(inputs, shape), Tensor::from(targets, shape), &t.rng);
  tape.backward(loss);
  t.optimizer.step(t.learning_rate, optim::measure_clipping(params_.parameters(), 1).factor);
  return {{"step", t.optimizer.steps()}, {"loss", loss.item()}};
}

std::string answer(const std::string& request) {
  static std::unique_ptr<Engine> engine;
  try {
    Json said;
    const auto json = parse_json<Json>(request, kDepth);
    if (json.contains("open")) {
      engine = nullptr;  // its memory goes before the next one's comes
      engine = std::make_unique<Engine>(field<std::string>(json, "open"));
      said = engine->answer({{"do", "facts"}});
    } else {
      check(engine != nullptr, "no model is open");
      said = engine->answer(json);
    }
    return json_text(said);
  } catch (const std::bad_alloc&) {  // whose own words are no sentence
    return json_text({{"error", "out of memory"}});
  } catch (const std::exception& error) {
    return json_text({{"error", error.what()}});
  }
}

}  // namespace tapegrad::web
