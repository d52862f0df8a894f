#include "tapegrad/apps/sample/prompt_answers.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tapegrad/base/interrupt.h"

namespace tapegrad::sampling {
namespace {

// Prompts behind one whose text is long. More would be kept in memory for longer texts than that.
constexpr std::int64_t kMostUnprinted = 1024;

}  // namespace

PromptAnswers::PromptAnswers(const run::TextModel& model, const SampleOptions& options,
                             std::uint64_t seed, PromptReader prompts)
    : model_(model),
      options_(options),
      printer_(model, options),
      generation_(model.gpt, generation_limits(model, options)),
      seed_(seed),
      reader_(std::move(prompts)) {}

std::optional<PromptAnswers::Prompt> PromptAnswers::read_prompt() {
  std::optional<PromptLine> line = reader_.next();
  if (!line) return std::nullopt;
  nn::GenerateOptions generate = generate_options(model_, options_);
  generate.max_new_tokens = line->max_new_tokens.value_or(generate.max_new_tokens);
  nn::Tokens tokens = tokens_of(*line, model_.tokenizer);
  printer_.note_length(tokens.size(), generate);
  Rng rng(line->seed.value_or(seed_ + read_++));
  return Prompt{std::move(*line), std::move(tokens), std::move(generate), std::move(rng)};
}

void PromptAnswers::begin_text(Prompt& prompt) {
  printer_.begin_text();
  prompt.answer.emplace(Answer{.id = generation_.add(prompt.tokens, prompt.options, prompt.rng),
                               .start = prompt.rng,
                               .maker = TextMaker(model_.tokenizer, options_)});
}

// Only if there is nothing else to do does it wait for stdin: whoever writes prompts there may wait
// for the answer to one before the next.
void PromptAnswers::read_next() {
  if (next_ || ended_) return;
  try {
    if (!prompts_.empty() && !reader_.has_input()) return;
    next_ = read_prompt();
    ended_ = !next_;
  } catch (...) {  // the texts of the prompts before it are made all the same
    error_ = std::current_exception();
    ended_ = true;
  }
}

void PromptAnswers::begin_texts() {
  const std::int64_t most = std::max(kMostUnprinted, 2 * options_.batch);
  while (std::ssize(prompts_) < most) {
    read_next();
    if (!next_ || !generation_.has_room(std::ssize(next_->tokens), next_->options)) return;
    prompts_.push_back(std::move(*next_));
    next_.reset();
    begin_text(prompts_.back());
  }
}

// Adds what a step has made to a prompt's text.
void PromptAnswers::take(Prompt& prompt) {
  Answer& answer = *prompt.answer;
  const nn::Generation::Taken taken = generation_.take(answer.id);
  for (const nn::NewToken& t : taken.tokens) {
    ++answer.tokens;
    printer_.saw_token();
    answer.maker.push(t);
    if (answer.maker.stopped()) return end_text(prompt, taken.end);
  }
  if (taken.end) end_text(prompt, taken.end);
}

// The next text draws from where this one has stopped, which may be before the last token of it.
void PromptAnswers::end_text(Prompt& prompt, std::optional<nn::TextEnd> end) {
  Answer& answer = *prompt.answer;
  const bool stopped = answer.maker.stopped();
  answer.maker.end(end);
  prompt.rng = stopped ? answer.start : generation_.rng(answer.id);
  if (stopped) {
    nn::skip_tokens(prompt.rng, prompt.options, model_.gpt.config.vocab_size, answer.tokens);
  }
  generation_.remove(answer.id);
  prompt.texts.push_back(answer.maker.take());
  prompt.answer.reset();
  if (++prompt.ended < options_.num_samples) begin_text(prompt);
}

void PromptAnswers::print_ended() {
  while (!prompts_.empty() && !interrupted() && std::ferror(stdout) == 0) {
    Prompt& prompt = prompts_.front();
    if (prompt.texts.empty()) return;
    const MadeText& made = prompt.texts.front();
    if (options_.json) {
      printer_.json(prompt.line.prompt, made, prompt.line.id);
    } else {
      if (printed_ == 0) {  // a second prompt has been read, or may still come
        read_next();
        several_ = read_ > 1 || !ended_;
      }
      printer_.heading(printed_, several_ ? 2 : 1);
      SamplePrinter::print(prompt.line.prompt + made.text);
      printer_.end_text(made.tokens);
    }
    prompt.texts.pop_front();
    if (++printed_ % static_cast<std::size_t>(options_.num_samples) == 0) prompts_.pop_front();
  }
}

void PromptAnswers::print_all() {
  catch_interrupts();
  begin_texts();
  while (!prompts_.empty() && !interrupted() && std::ferror(stdout) == 0) {
    generation_.step();
    for (Prompt& prompt : prompts_) {
      if (prompt.answer) take(prompt);
    }
    print_ended();
    begin_texts();
  }
  printer_.count(generation_.cost());
  printer_.rate();
  if (error_) std::rethrow_exception(error_);
}

}  // namespace tapegrad::sampling
