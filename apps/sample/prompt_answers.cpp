#include "tapegrad/apps/sample/prompt_answers.h"

#include <cstdio>

#include "tapegrad/base/interrupt.h"

namespace tapegrad::sampling {

PromptAnswers::PromptAnswers(const run::TextModel& model, const SampleOptions& options,
                             std::uint64_t seed, std::vector<PromptLine> prompts)
    : model_(model),
      options_(options),
      printer_(model, options),
      generation_(model.gpt, generation_limits(model, options)) {
  for (PromptLine& line : prompts) {
    nn::GenerateOptions generate = generate_options(model, options);
    generate.max_new_tokens = line.max_new_tokens.value_or(generate.max_new_tokens);
    nn::Tokens tokens;
    try {
      tokens = model.tokens_of(line.prompt);
    } catch (const Error& error) {
      fail("{}: {}", line.where, error.what());
    }
    Rng rng(line.seed.value_or(seed + prompts_.size()));
    prompts_.push_back({std::move(line), std::move(tokens), std::move(generate), std::move(rng)});
  }
}

void PromptAnswers::begin_text(Prompt& prompt) {
  printer_.begin_text();
  prompt.answer.emplace(Answer{.id = generation_.add(prompt.tokens, prompt.options, prompt.rng),
                               .start = prompt.rng,
                               .characters = {},
                               .stop = StopText(options_.stops)});
}

void PromptAnswers::begin_texts() {
  while (begun_ < prompts_.size() &&
         generation_.has_room(std::ssize(prompts_[begun_].tokens), prompts_[begun_].options)) {
    begin_text(prompts_[begun_]);
    running_.push_back(&prompts_[begun_++]);
  }
}

// Adds what a step has made to a prompt's text.
void PromptAnswers::take(Prompt& prompt) {
  Answer& answer = *prompt.answer;
  const nn::Generation::Taken taken = generation_.take(answer.id);
  for (const nn::NewToken& t : taken.tokens) {
    ++answer.tokens;
    printer_.saw_token();
    if (options_.logprobs) answer.made.tokens.push_back(t);
    answer.made.text +=
        answer.stop.push(answer.characters.push(model_.tokenizer.token_bytes(t.token)));
    if (answer.stop.stopped()) return end_text(prompt, true);
  }
  if (taken.end) end_text(prompt, false);
}

// The next text draws from where this one has stopped, which may be before the last token of it.
void PromptAnswers::end_text(Prompt& prompt, bool stopped) {
  Answer& answer = *prompt.answer;
  answer.made.text += answer.stop.push(answer.characters.flush());
  answer.made.text += answer.stop.flush();
  prompt.rng = stopped ? answer.start : generation_.rng(answer.id);
  if (stopped) {
    nn::skip_tokens(prompt.rng, prompt.options, model_.gpt.config.vocab_size, answer.tokens);
  }
  generation_.remove(answer.id);
  prompt.texts.push_back(std::move(answer.made));
  prompt.answer.reset();
  if (++prompt.ended < options_.num_samples) begin_text(prompt);
}

void PromptAnswers::print_ended() {
  const auto times = static_cast<std::size_t>(options_.num_samples);
  for (; printed_ < prompts_.size() * times; ++printed_) {
    Prompt& prompt = prompts_[printed_ / times];
    if (prompt.texts.empty() || interrupted() || std::ferror(stdout) != 0) return;
    const MadeText& made = prompt.texts.front();
    if (options_.json) {
      printer_.json(prompt.line.prompt, made, prompt.line.id);
    } else {
      printer_.heading(printed_, prompts_.size());
      SamplePrinter::print(prompt.line.prompt + made.text);
      printer_.end_text(made.tokens);
    }
    prompt.texts.pop_front();
  }
}

void PromptAnswers::print_all() {
  catch_interrupts();
  for (const Prompt& prompt : prompts_) printer_.note_length(prompt.tokens.size(), prompt.options);
  const std::size_t all = prompts_.size() * static_cast<std::size_t>(options_.num_samples);
  while (printed_ < all && !interrupted() && std::ferror(stdout) == 0) {
    begin_texts();
    generation_.step();
    for (Prompt* prompt : running_) take(*prompt);
    std::erase_if(running_, [](const Prompt* prompt) { return !prompt->answer; });
    print_ended();
  }
  printer_.count(generation_.cost());
  printer_.rate();
}

}  // namespace tapegrad::sampling
