#include "tapegrad/apps/sample/sample_printer.h"

#include <algorithm>
#include <cstdio>

#include "tapegrad/autograd/quantized/read_rate.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::sampling {
bool SamplePrinter::print(std::string_view piece) {
  std::fwrite(piece.data(), 1, piece.size(), stdout);
  return std::fflush(stdout) == 0 && !interrupted();
}

void SamplePrinter::heading(std::size_t text, std::size_t prompts) const {
  const auto times = static_cast<std::size_t>(options_.num_samples);
  if (options_.json || prompts * times == 1) return;
  std::string name;
  if (prompts > 1) name = fmt::format("prompt {}", text / times + 1);
  if (times > 1) name += fmt::format("{}sample {}", prompts > 1 ? ", " : "", text % times + 1);
  print(fmt::format("{}--- {} ---\n", text > 0 ? "\n" : "", name));
}

void SamplePrinter::end_text(const std::vector<nn::NewToken>& tokens) const {
  print("\n");
  if (options_.logprobs) print("\n logprob  token\n");
  for (const nn::NewToken& t : tokens) {  // as in JSON, so that each stays on a line
    const std::string bytes = model_.tokenizer.token_bytes(t.token);
    print(fmt::format("{:8.4f}  {}\n", t.logprob, json_text(Json(bytes))));
  }
}

void SamplePrinter::json(const std::string& prompt, const MadeText& made,
                         const std::optional<Json>& id) const {
  Json json = Json::object();
  if (id) json["id"] = *id;
  json["prompt"] = prompt;
  json["text"] = made.text;
  json["finish_reason"] = made.finish_reason.empty() ? Json() : Json(made.finish_reason);
  if (options_.logprobs) json["tokens"] = Json::array();
  for (const nn::NewToken& t : made.tokens) {
    json["tokens"].push_back(
        {{"id", t.token}, {"text", model_.tokenizer.token_bytes(t.token)}, {"logprob", t.logprob}});
  }
  print(json_text(json) + "\n");
}

void SamplePrinter::note_length(std::size_t prompt_tokens, const nn::GenerateOptions& options) {
  const std::int64_t block = model_.gpt.config.block_size;
  const bool fits = static_cast<std::int64_t>(prompt_tokens) + options.max_new_tokens - 1 <= block;
  if (noted_ || fits || options.context == nn::Context::shift || options.max_new_tokens == 0)
    return;
  noted_ = true;
  print_error(
      fmt::format("The model sees {}. Of a longer text, it sees the last ones, and reads all "
                  "of them again for each token; --context shift does so less often.\n",
                  counted(block, "token")));
}

MadeText SamplePrinter::make(nn::TokenStream& stream, const OnText& show) {
  if (!watch_) watch_.emplace();
  TextMaker maker(model_.tokenizer, options_);
  while (const auto token = stream.next()) {
    saw_token();
    const std::string piece = maker.push(*token);
    if ((!piece.empty() && !show(piece)) || maker.stopped() || interrupted()) break;
  }
  if (const std::string rest = maker.end(stream.end_of_text()); !rest.empty()) show(rest);
  return maker.take();
}

void SamplePrinter::saw_token() {
  ++tokens_;
  if (!first_token_) first_token_ = watch_->seconds();
}

void SamplePrinter::rate(const nn::GenerationCost& cost) const {
  if (tokens_ == 0) return;
  const auto per_second = [](std::int64_t tokens, double seconds) {
    return grouped(
        static_cast<std::int64_t>(static_cast<double>(tokens) / std::max(seconds, 1e-9)));
  };
  std::string line;
  if (cost.prompt_tokens > 0) {
    line = fmt::format("{} read, {} tok/s; ", counted(cost.prompt_tokens, "token"),
                       per_second(cost.prompt_tokens, cost.prefill_seconds));
  }
  line += fmt::format("the first token after {:.2f} s; {} in {:.2f} s", *first_token_,
                      counted(tokens_, "token"), cost.prefill_seconds + cost.seconds);
  if (cost.tokens > 0) line += fmt::format(": {} tok/s", per_second(cost.tokens, cost.seconds));
  if (cost.proposed_tokens > 0) {
    line += fmt::format("; {} of {} proposed tokens accepted", grouped(cost.accepted_tokens),
                        grouped(cost.proposed_tokens));
  }
  constexpr double kLong = 1;  // seconds: finding out takes as long as four tokens
  const auto weights = nn::read_by_pass(model_.gpt, model_.params);
  if (cost.pass_seconds > kLong && !weights.empty() && !interrupted()) {
    const double bytes =
        static_cast<double>(cost.passes) * static_cast<double>(nn::bytes_of(weights));
    line += fmt::format(", which is {:.0f} % of the rate at which the weights can be read",
                        100 * bytes / cost.pass_seconds / read_rate(weights));
  }
  const CacheType cache = options_.cache.value_or(nn::usual_cache(model_.params));
  if (options_.generate.kv_cache && cache != CacheType::f32) {
    line +=
        fmt::format("; keys and values of {}", names_of(cache)[static_cast<std::size_t>(cache)]);
  }
  print_error(line + "\n");
}

nn::GenerateOptions generate_options(const run::TextModel& model, const SampleOptions& options) {
  nn::GenerateOptions generate = options.generate;
  generate.logprobs = options.logprobs;
  const auto check_token = [&](const char* option, std::int32_t token) {
    check(token < model.gpt.config.vocab_size, "{}: {} is not a token of the model's {}", option,
          token, model.gpt.config.vocab_size);
  };
  for (const std::int32_t token : generate.stop_tokens) check_token("--stop-token-ids", token);
  for (const auto& [token, bias] : generate.logit_bias) check_token("--logit-bias", token);
  if (options.ignore_eos) return generate;
  const auto& ends = model.tokenizer.ends();
  generate.stop_tokens.insert(generate.stop_tokens.end(), ends.begin(), ends.end());
  return generate;
}

nn::GenerationLimits generation_limits(const run::TextModel& model, const SampleOptions& options) {
  const CacheType cache = options.cache.value_or(nn::usual_cache(model.params));
  nn::GenerationLimits limits{.max_sequences = options.batch, .cache = cache};
  const auto memory = available_memory();
  if (!memory) return limits;
  const nn::DecoderConfig& c = model.gpt.config;
  const nn::Decoder* draft = options.generate.draft;
  const std::int64_t position =
      nn::cache_bytes_per_position(c, cache) +
      (draft != nullptr ? nn::cache_bytes_per_position(draft->config) : 0);
  const auto most = static_cast<std::int64_t>(memory->bytes) / 2 / position;
  const std::int64_t text =
      nn::cached_positions(c.block_size, c, draft != nullptr ? &draft->config : nullptr);
  limits.max_positions = std::clamp(most, text, std::max(text, options.batch * text));
  return limits;
}

}  // namespace tapegrad::sampling
