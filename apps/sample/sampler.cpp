#include "tapegrad/apps/sample/sampler.h"

#include <algorithm>
#include <cstdio>

#include "tapegrad/apps/sample/line_editor.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"

namespace tapegrad::sampling {
namespace {

constexpr const char* kHelp =
    "Any line is continued by the model. These are not:\n"
    "  /help   this text\n"
    "  /quit   ends the program, as Ctrl-D or Ctrl-C at the prompt do\n"
    "Ctrl-C ends an answer. Arrows move in the line and bring earlier lines back, Ctrl-R searches\n"
    "them; ~/.editrc sets other keys.\n";

// Of lines at a terminal: a slash and a word, so that "// a comment" can be continued.
bool is_command(const std::string& line) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return line.size() > 1 && line[0] == '/' && std::all_of(line.begin() + 1, line.end(), letter);
}

}  // namespace

Sampler::Sampler(const run::TextModel& model, const SampleOptions& options, std::uint64_t seed)
    : model_(model), options_(options), printer_(model_, options_), seed_(seed) {}

// The next sample of the prompt that was read last, or the first one of the next prompt.
std::optional<nn::Prompt> Sampler::next_text(PromptLines& prompts, std::int64_t samples) {
  if (!begun_) {
    std::optional<PromptLine> line = prompts.next();
    if (!line) return std::nullopt;
    nn::GenerateOptions generate = generate_options(model_, options_);
    generate.max_new_tokens = line->max_new_tokens.value_or(generate.max_new_tokens);
    nn::Tokens tokens = tokens_of(*line, model_.tokenizer);
    printer_.note_length(tokens.size(), generate);
    begun_ = Begun{std::move(*line), std::move(tokens), std::move(generate)};
    ++prompts_;
  }
  const std::uint64_t own = seed_++, sample = begun_->samples++;
  nn::Prompt text{.tokens = begun_->tokens,
                  .options = begun_->options,
                  .seed = begun_->line.seed ? *begun_->line.seed + sample : own,
                  .goes_on = until_stop(model_.tokenizer, options_)};
  asked_.push_back({begun_->line.prompt, begun_->line.id});
  if (begun_->samples == static_cast<std::uint64_t>(samples)) begun_.reset();
  return text;
}

nn::PromptSource Sampler::texts_of(PromptLines& prompts, std::int64_t samples) {
  return {.next = [this, &prompts, samples] { return next_text(prompts, samples); },
          .ready = [this, &prompts] { return begun_ || prompts.has_input(); }};
}

void Sampler::print_text(nn::TokenStream& stream) {
  const Asked asked = std::move(asked_.front());
  asked_.pop_front();
  if (options_.json) {
    const MadeText made = printer_.make(stream, [](std::string_view) { return true; });
    if (interrupted() && made.finish_reason.empty()) return;  // a part of a text is no answer
    return printer_.json(asked.prompt, made, asked.id);
  }
  SamplePrinter::print(asked.prompt);
  printer_.end_text(printer_.make(stream, SamplePrinter::print).tokens);
}

void Sampler::print_texts(PromptLines& prompts) {
  catch_interrupts();
  nn::Generation engine(model_.gpt, generation_limits(model_, options_));
  nn::TokenStream stream(engine, texts_of(prompts, options_.num_samples));
  bool several = false;  // prompts, for headings
  try {
    for (std::size_t text = 0; !interrupted() && std::ferror(stdout) == 0 && stream.next_text();
         ++text) {
      if (text == 0) several = prompts_ > 1 || !prompts.at_end();
      printer_.heading(text, several ? 2 : 1);
      print_text(stream);
    }
  } catch (...) {  // texts before the error were made all the same
    printer_.rate(engine.cost());
    throw;
  }
  printer_.rate(engine.cost());
}

void Sampler::converse() {
  catch_interrupts();
  nn::GenerationLimits limits = generation_limits(model_, options_);
  limits.kept_positions = 0;  // a line does not go on with those before it
  nn::Generation engine(model_.gpt, limits);
  LineEditor lines;
  if (lines.on_terminal()) print_error("A line is continued. /help tells of keys and commands.\n");
  while (const auto line = lines.next("> ")) {
    if (line->empty()) continue;
    if (lines.on_terminal() && is_command(*line)) {
      if (*line == "/quit") break;
      print_error(*line == "/help" ? kHelp
                                   : fmt::format("{}: no such command. /help shows all.\n", *line));
      continue;
    }
    try {
      PromptList prompt({*line});
      nn::TokenStream stream(engine, texts_of(prompt, 1));
      stream.next_text();
      print_text(stream);
    } catch (const nn::BrokenLogits&) {  // no other line will do better
      throw;
    } catch (const Error& error) {  // a character that the model does not have, say
      print_error(fmt::format("{}\n", error.what()));
      asked_.clear();
    }
    forget_interrupt();
  }
  printer_.rate(engine.cost());
}

}  // namespace tapegrad::sampling
