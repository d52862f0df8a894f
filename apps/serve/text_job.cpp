#include "tapegrad/apps/serve/text_job.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tapegrad::serve {
namespace {

// Of one answer that is no stream; each takes about half a kilobyte as JSON.
constexpr std::size_t kMostLogprobs = 1'000'000;
// Of a stream that ends with all of them, in several events.
constexpr std::size_t kMostRepeatedLogprobs = 100'000;

std::string finish_reason(nn::TextEnd end) {
  return end == nn::TextEnd::length ? "length" : "stop";
}

// Of the ids of calls: those of a later turn of the same conversation are others.
std::uint64_t seed_of_ids(std::uint64_t seed, const nn::Tokens& prompt) {
  for (const std::int32_t token : prompt) {  // FNV-1a, token by token
    seed = (seed ^ static_cast<std::uint32_t>(token)) * 0x100000001b3U;
  }
  return seed;
}

nn::GenerateOptions without_prompt_logprobs(nn::GenerateOptions options) {
  options.prompt_logprobs.reset();
  return options;
}

}  // namespace

Json Usage::json() const {
  Json json = {{"prompt_tokens", prompt_tokens},
               {"completion_tokens", completion_tokens},
               {"total_tokens", prompt_tokens + completion_tokens}};
  if (reasoning_tokens > 0) {
    json["completion_tokens_details"] = {{"reasoning_tokens", reasoning_tokens}};
  }
  return json;
}

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string legacy_token(const std::string& bytes) {
  if (!find_invalid_utf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char byte : bytes) {
    text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

double shown_logprob(double logprob) { return std::max(logprob, -9999.0); }

TextJob::TextJob(const ServedModel& model, const TextRequest& request,
                 std::vector<TextPrompt> prompts, std::unique_ptr<TextFormat> format,
                 std::unique_ptr<Reply> reply)
    : model_(model),
      request_(request),
      unscored_(without_prompt_logprobs(request.options)),
      prompts_(std::move(prompts)),
      format_(std::move(format)),
      reply_(std::move(reply)) {
  for (const TextPrompt& prompt : prompts_) {
    usage_.prompt_tokens += std::ssize(prompt.tokens);
    usage_.spelled += prompt.spelled;
    for (std::int64_t i = 0; i < request_.n; ++i) {
      const auto* options = i == 0 || request_.scores_echo ? &request_.options : &unscored_;
      texts.push_back({&prompt.tokens, options, request_.seed + texts.size()});
      if (request_.prompt_logprobs && (i == 0 || !format_->shares_prompt_logprobs())) {
        count_logprobs("prompt_logprobs", prompt.tokens.size(), *request_.prompt_logprobs);
      }
      answers_.push_back({.choice = Choice(model_.model.tokenizer, request_.stops,
                                           characters_of(prompt.echo.value_or(""))),
                          .prompt = prompt});
      answers_.back().whole.index = answers_.size() - 1;
      if (!prompt.reading) continue;
      answers_.back().parts.emplace(*prompt.reading, seed_of_ids(texts.back().seed, prompt.tokens));
    }
  }
}

// The tokens of the prompt, each with where it begins in the echo.
std::vector<ShownToken> TextJob::echoed(const Answer& answer) const {
  std::vector<ShownToken> tokens;
  Utf8Stream characters;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < answer.prompt.tokens.size(); ++i) {
    const std::int32_t token = answer.prompt.tokens[i];
    const bool scored = i > 0 && i - 1 < answer.scores.size();
    tokens.push_back({.token = scored ? answer.scores[i - 1] : nn::NewToken{token},
                      .offset = offset,
                      .scored = scored});
    if (i < answer.prompt.unseen) continue;
    offset += characters_of(characters.push(model_.model.tokenizer.token_bytes(token)));
  }
  // Some tokenizers put a space before a text, which its echo does not have.
  const std::int64_t before =
      std::max<std::int64_t>(offset - characters_of(answer.prompt.echo.value_or("")), 0);
  for (ShownToken& shown : tokens) shown.offset = std::max<std::int64_t>(shown.offset - before, 0);
  return tokens;
}

// Puts what a text begins with before its first part.
void TextJob::begin(std::size_t index, TextPart& part) {
  Answer& answer = answers_[index];
  if (std::exchange(answer.begun, true)) return;
  if (request_.stream) event(format_->begin(index));
  if (!answer.prompt.echo) return;
  part.text = *answer.prompt.echo;
  if (answer.parts) part.parts = answer.parts->push(part.text, 0);
  if (request_.scores_echo) part.tokens = echoed(answer);
}

bool TextJob::take(std::size_t text, nn::Generation::Taken taken) {
  Answer& answer = answers_[text];
  std::move(taken.prompt.begin(), taken.prompt.end(), std::back_inserter(answer.scores));
  if (taken.tokens.empty() && !taken.end) return true;
  TextPart part{.index = text};
  begin(text, part);
  const auto add = [&](Choice::Piece piece, std::int64_t tokens) {
    part.text += piece.text;
    if (answer.parts) append_parts(part.parts, answer.parts->push(piece.text, tokens));
    if (!request_.options.logprobs) return;
    std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(part.tokens));
  };
  const std::int64_t before = answer.choice.tokens();
  for (const nn::NewToken& token : taken.tokens) {
    if (!answer.choice.stopped()) add(answer.choice.push(token), 1);
  }
  const bool stopped = answer.choice.stopped();
  if (taken.end && !stopped) add(answer.choice.end(), 0);
  usage_.completion_tokens += answer.choice.tokens() - before;
  if (taken.end || stopped) end(answer, stopped ? "stop" : finish_reason(*taken.end), part);
  send(std::move(part));
  return !stopped;
}

void TextJob::end(Answer& answer, std::string reason, TextPart& part) {
  part.finish = std::move(reason);
  if (!answer.parts) return;
  append_parts(part.parts, answer.parts->end());
  if (*part.finish == "stop" && answer.parts->has_called()) part.finish = "tool_calls";
  usage_.reasoning_tokens += answer.parts->reasoning_tokens();
}

// Keeps a part for the whole answer, or sends it.
void TextJob::send(TextPart part) {
  count_logprobs("logprobs", part.tokens.size(), request_.options.top_logprobs);
  if (!request_.stream) return keep(std::move(part));
  const auto finish = std::exchange(part.finish, std::nullopt);
  const bool says = answers_[part.index].parts ? !part.parts.empty() : !part.text.empty();
  if (says || !part.tokens.empty()) event(format_->delta(part));
  if (finish) event(format_->delta({.index = part.index, .finish = finish}));
}

// Bounds what an answer has at once, or the end of a stream.
void TextJob::count_logprobs(std::string_view field, std::size_t tokens, std::int64_t top) {
  if (request_.stream && !format_->repeats()) return;
  const std::size_t most = request_.stream ? kMostRepeatedLogprobs : kMostLogprobs;
  kept_logprobs_ += tokens * static_cast<std::size_t>(1 + top);
  if (kept_logprobs_ <= most) return;
  const bool may_stream = !format_->repeats() && !request_.prompt_logprobs;
  throw Refused({.message = fmt::format("the answer has more than {} log probabilities: ask for "
                                        "fewer{}",
                                        most, may_stream ? ", or for a stream" : ""),
                 .param = std::string(field),
                 .code = "too_many_logprobs"});
}

void TextJob::keep(TextPart part) {
  TextPart& whole = answers_[part.index].whole;
  whole.text += part.text;
  append_parts(whole.parts, std::move(part.parts));
  std::move(part.tokens.begin(), part.tokens.end(), std::back_inserter(whole.tokens));
  whole.finish = part.finish;
}

void TextJob::event(std::string text) {
  if (text.empty()) return;
  streaming_ = true;
  reply_->event(std::move(text));
}

void TextJob::finish() {
  if (request_.stream) {
    reply_->end(format_->end(usage_), 200, usage_);
    return;
  }
  std::vector<TextPart> texts;
  for (Answer& answer : answers_) {
    // Of each prompt, the first text has scored it.
    const std::size_t scored = texts.size() - texts.size() % static_cast<std::size_t>(request_.n);
    texts.push_back(std::move(answer.whole));
    texts.back().prompt = answers_[scored].scores;
  }
  reply_->send({.body = json_text(format_->whole(texts, usage_))}, usage_);
}

void TextJob::fail(const Refusal& why) {
  if (!streaming_) return reply_->send(why.response(), usage_);
  reply_->end(format_->fail(why, usage_), why.status, usage_);
}

}  // namespace tapegrad::serve
