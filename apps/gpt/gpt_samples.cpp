// The texts that train-gpt shows while it trains, and at its end.

#include "tapegrad/apps/gpt/gpt_program.h"
#include "tapegrad/apps/gpt/samples.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/run/record/report.h"

namespace tapegrad::gpt {

// The model's answers to questions of the conversations that it is validated with, beside those
// that stand there: the same draws each time, and none of the run's own.
void Program::print_answers(run::Report& report, bool recorded) const {
  Rng rng(options_.random.seed);
  for (const run::ChatPrompt& prompt : data_.chat->prompts) {
    if (interrupted()) return;
    report.line(fmt::format("\nstep {}, a conversation to validate with\nprompt: {}\nwanted: {}",
                            report.iteration(), prompt.question, prompt.wanted));
    report.text("answer: ");
    nn::GenerateOptions sampling = kSampling;
    sampling.stop_tokens = data_.chat->ends;
    nn::TokenStream stream(gpt_, prompt.tokens, sampling, rng);
    std::string text;
    run::stream_text(stream, data_.tokenizer, [&](std::string_view piece) {
      report.text(piece);
      text += piece;
      return !interrupted();
    });
    report.line("");
    // A text that a signal has cut is made again when the run is resumed.
    if (interrupted()) return;
    if (recorded)
      report.record({{"sample", text}, {"prompt", prompt.question}, {"wanted", prompt.wanted}});
  }
}

void Program::print_samples(run::Report& report) const {
  if (shows_sample(report)) return;  // it stands there already
  if (data_.chat) return print_answers(report, /*recorded=*/false);
  Rng rng(options_.random.seed);
  nn::GenerateOptions sampling = kSampling;
  sampling.stop_tokens = data_.tokenizer.ends();
  nn::TokenStream stream(gpt_, std::vector<nn::Tokens>{run::default_prompt(data_.tokenizer)},
                         sampling, rng, {.times = std::ssize(kSampleHeadings)});
  for (const char* heading : kSampleHeadings) {
    if (interrupted()) return;
    report.line(heading);
    run::stream_text(stream, data_.tokenizer, [&](std::string_view piece) {
      report.text(piece);
      return !interrupted();
    });
    report.line("");
    stream.next_text();
  }
}

bool Program::shows_sample(const run::Report& report) const {
  const auto interval = options_.passes.sample_interval;
  return interval && report.iteration() > 0 && report.iteration() % *interval == 0;
}

// After every sample_interval steps: the same draws each time, and none of the run's own.
void Program::print_sample(run::Report& report) const {
  if (!shows_sample(report)) return;
  if (data_.chat) return print_answers(report, /*recorded=*/true);
  Rng rng(options_.random.seed);
  report.line(fmt::format("\nsample at step {}:", report.iteration()));
  std::string text = options_.passes.sample_prompt;
  report.text(text);
  run::stream_text(gpt_, data_.tokenizer, prompt_, kSampling, rng, [&](std::string_view piece) {
    report.text(piece);
    text += piece;
    return !interrupted();
  });
  report.line("\n");
  // A text that a signal has cut is made again when the run is resumed.
  if (!interrupted()) report.record({{"sample", text}});
}

// After each pass: the text that the model makes of the prompt, on one line.
void Program::print_continuation(run::Report& report) const {
  const std::int64_t parts = options_.optimizer.gradient_accumulation_steps;
  if (!continues_prompt() || !batches_.ended_pass(parts)) return;
  Rng unused(0);
  std::string text = options_.passes.sample_prompt;
  run::stream_text(gpt_, data_.tokenizer, prompt_,
                   {.max_new_tokens = kContinuationTokens, .greedy = true}, unused,
                   [&](std::string_view piece) {
                     text += piece;
                     return true;
                   });
  std::replace(text.begin(), text.end(), '\n', ' ');
  report.line(text);
}

}  // namespace tapegrad::gpt
