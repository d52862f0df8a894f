#include "tapegrad/apps/sample/sampler.h"

#include <algorithm>
#include <cstdio>

#include "tapegrad/apps/sample/line_editor.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/nn/generation/broken_logits.h"

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

// Error if a prompt has a character that the model does not know.
nn::TokenStream Sampler::stream_of(const std::vector<std::string>& prompts, std::int64_t times) {
  const nn::GenerateOptions options = generate_options(model_, options_);
  std::vector<nn::Tokens> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(model_.tokens_of(prompt));
  for (const nn::Tokens& prompt : tokens) printer_.note_length(prompt.size(), options);
  return {model_.gpt,
          std::move(tokens),
          options,
          rng_,
          {.times = times,
           .leaves_texts = !options_.stops.empty(),
           .limits = generation_limits(model_, options_)}};
}

// Makes the stream's current text, and passes on what may be shown of it.
MadeText Sampler::make(nn::TokenStream& stream, const run::OnText& on_text) {
  TextMaker maker(model_.tokenizer, options_);
  printer_.begin_text();
  while (const auto token = stream.next()) {
    printer_.saw_token();
    const std::string piece = maker.push(*token);
    if ((!piece.empty() && !on_text(piece)) || maker.stopped() || interrupted()) break;
  }
  if (const std::string rest = maker.end(stream.end_of_text()); !rest.empty()) on_text(rest);
  return maker.take();
}

void Sampler::print_one(const std::string& prompt, nn::TokenStream& stream) {
  if (options_.json) {
    return printer_.json(prompt, make(stream, [](std::string_view) { return true; }));
  }
  SamplePrinter::print(prompt);
  printer_.end_text(make(stream, SamplePrinter::print).tokens);
}

void Sampler::print_samples(const std::vector<std::string>& prompts) {
  catch_interrupts();
  const auto times = static_cast<std::size_t>(options_.num_samples);
  std::size_t text = 0;
  nn::TokenStream stream = stream_of(prompts, options_.num_samples);
  for (const std::string& prompt : prompts) {
    for (std::size_t i = 0; i < times && !interrupted() && std::ferror(stdout) == 0; ++i) {
      printer_.heading(text++, prompts.size());
      print_one(prompt, stream);
      stream.next_text();
    }
  }
  printer_.count(stream.cost());
  printer_.rate();
}

void Sampler::converse() {
  catch_interrupts();
  LineEditor lines("> ");
  if (lines.on_terminal()) print_error("A line is continued. /help tells of keys and commands.\n");
  while (const auto line = lines.next()) {
    if (line->empty()) continue;
    if (lines.on_terminal() && is_command(*line)) {
      if (*line == "/quit") break;
      print_error(*line == "/help" ? kHelp
                                   : fmt::format("{}: no such command. /help shows all.\n", *line));
      continue;
    }
    try {
      nn::TokenStream stream = stream_of({*line}, 1);
      print_one(*line, stream);
      printer_.count(stream.cost());
    } catch (const nn::BrokenLogits&) {  // no other line will do better
      throw;
    } catch (const Error& error) {  // a character that the model does not have, say
      print_error(fmt::format("{}\n", error.what()));
    }
    forget_interrupt();
  }
  printer_.rate();
}

}  // namespace tapegrad::sampling
