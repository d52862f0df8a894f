// The texts that train-gpt shows while it trains, and at its end.

#include <algorithm>
#include <iterator>
#include <utility>

#include "tapegrad/apps/train/samples.h"
#include "tapegrad/apps/train/train_program.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/run/record/report.h"

namespace tapegrad::gpt {
namespace {

// Prints the stream's current text as it is made, and returns it.
std::string print_text(run::Report& report, run::TextStream& stream) {
  std::string text;
  for (const std::string& piece : stream) {
    report.text(piece);
    text += piece;
    if (interrupted()) break;
  }
  return text;
}

}  // namespace

// Texts behind prompts, up to the end of a document.
run::TextStream Program::continuation(std::vector<nn::Tokens> prompts,
                                      nn::GenerateOptions options) const {
  options.stop_tokens = data_.tokenizer.ends();
  return {gpt_, data_.tokenizer, std::move(prompts), options, plan_.random.seed};
}

// The model's answers to questions of the conversations that it is validated with, beside those
// that stand there: the same draws each time, and none of the run's own.
void Program::print_answers(run::Report& report, bool recorded) const {
  nn::GenerateOptions sampling = kSampling;
  sampling.stop_tokens = data_.chat->ends;
  std::vector<nn::Tokens> prompts;
  for (const run::ChatPrompt& prompt : data_.chat->prompts) prompts.push_back(prompt.tokens);
  run::TextStream answers(gpt_, data_.tokenizer, std::move(prompts), sampling, plan_.random.seed);
  for (const run::ChatPrompt& prompt : data_.chat->prompts) {
    if (interrupted()) return;
    report.line(fmt::format("\nstep {}, a conversation to validate with\nprompt: {}\nwanted: {}",
                            report.iteration(), prompt.question, prompt.wanted));
    report.text("answer: ");
    answers.next_text();
    const std::string text = print_text(report, answers);
    report.line("");
    // A text that a signal has cut is made again when the run is resumed.
    if (interrupted()) return;
    if (recorded)
      report.record({{"sample", text}, {"prompt", prompt.question}, {"wanted", prompt.wanted}});
  }
}

void Program::print_samples(run::Report& report) const {
  if (shows_sample(report.iteration())) return;  // it stands there already
  if (data_.chat) return print_answers(report, /*recorded=*/false);
  std::vector<nn::Tokens> prompts(std::size(kSampleHeadings), run::default_prompt(data_.tokenizer));
  run::TextStream samples = continuation(std::move(prompts), kSampling);
  for (const char* heading : kSampleHeadings) {
    if (interrupted()) return;
    report.line(heading);
    samples.next_text();
    print_text(report, samples);
    report.line("");
  }
}

bool Program::shows_sample(std::int64_t step) const {
  const auto interval = plan_.epochs.sample_interval;
  return interval && step > 0 && step % *interval == 0;
}

// After every sample_interval steps: the same draws each time, and none of the run's own.
void Program::print_sample(run::Report& report) const {
  if (!shows_sample(report.iteration())) return;
  if (data_.chat) return print_answers(report, /*recorded=*/true);
  report.line(fmt::format("\nsample at step {}:", report.iteration()));
  report.text(plan_.epochs.sample_prompt);
  run::TextStream sample = continuation({prompt_}, kSampling);
  const std::string text = plan_.epochs.sample_prompt + print_text(report, sample);
  report.line("\n");
  // A text that a signal has cut is made again when the run is resumed.
  if (!interrupted()) report.record({{"sample", text}});
}

void Program::after_step(run::Report& report, bool made) const {
  print_sample(report);
  if (shows_continuation(made) && !interrupted()) print_continuation(report);
}

// After each epoch.
bool Program::shows_continuation(bool made) const {
  return made && continues_prompt() &&
         batches_.ended_epoch(plan_.optimizer.gradient_accumulation_steps);
}

// The text that the model makes of the prompt, on one line.
void Program::print_continuation(run::Report& report) const {
  std::string text =
      plan_.epochs.sample_prompt +
      continuation({prompt_}, {.max_new_tokens = kContinuationTokens, .greedy = true}).text();
  std::replace(text.begin(), text.end(), '\n', ' ');
  report.line(text);
}

}  // namespace tapegrad::gpt
