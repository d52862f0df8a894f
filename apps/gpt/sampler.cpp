#include "tapegrad/apps/gpt/sampler.h"

#include <unistd.h>

#include <chrono>
#include <iostream>

#include "tapegrad/apps/gpt/stop_text.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"

namespace tapegrad::gpt {
namespace {

bool print(std::string_view piece) {
  std::fwrite(piece.data(), 1, piece.size(), stdout);
  return std::fflush(stdout) == 0 && !interrupted();
}

// A token's text as in JSON, so that each stays on a line.
std::string quoted_text(const std::string& bytes) { return json_text(bytes); }

}  // namespace

// Makes one text, and passes on what may be shown of it.
template <class OnText>
std::vector<nn::NewToken> Sampler::make(const nn::Tokens& prompt, const OnText& on_text) {
  std::vector<nn::NewToken> pieces;
  nn::GenerateOptions options = options_.generate;
  options.logprobs = options_.logprobs;
  StopText stop(options_.stops);
  const auto begin = std::chrono::steady_clock::now();
  tokens_ += run::stream_text(
      model_.gpt, model_.tokenizer, prompt, options, rng_,
      [&](std::string_view piece) {
        const std::string shown = stop.push(piece);
        return (shown.empty() || on_text(shown)) && !stop.stopped() && !interrupted();
      },
      options_.ignore_eos,
      [&](const nn::NewToken& t) {
        if (options_.logprobs) pieces.push_back(t);
      });
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (const std::string rest = stop.flush(); !rest.empty()) on_text(rest);
  return pieces;
}

void Sampler::print_text(const std::string& prompt) {
  const nn::Tokens tokens = model_.tokens_of(prompt);  // an Error before anything is shown
  print(prompt);
  print_pieces(make(tokens, print));
}

// The tokens of a text, one on a line, after it.
void Sampler::print_pieces(const std::vector<nn::NewToken>& pieces) const {
  print("\n");
  if (options_.logprobs) print("\n logprob  token\n");
  for (const nn::NewToken& piece : pieces) {
    print(fmt::format("{:8.4f}  {}\n", piece.logprob,
                      quoted_text(model_.tokenizer.token_bytes(piece.token))));
  }
}

void Sampler::print_json(const std::string& prompt) {
  std::string text;
  const std::vector<nn::NewToken> pieces =
      make(model_.tokens_of(prompt), [&](std::string_view piece) {
        text += piece;
        return true;
      });
  Json json = {{"prompt", prompt}, {"text", text}};
  if (options_.logprobs) json["tokens"] = Json::array();
  for (const nn::NewToken& piece : pieces) {
    json["tokens"].push_back({{"id", piece.token},
                              {"text", model_.tokenizer.token_bytes(piece.token)},
                              {"logprob", piece.logprob}});
  }
  print(json_text(json) + "\n");
}

void Sampler::print_one(const std::string& prompt) {
  options_.json ? print_json(prompt) : print_text(prompt);
}

void Sampler::print_samples(const std::string& prompt) {
  catch_interrupts();
  for (std::int64_t i = 0; i < options_.num_samples && !interrupted(); ++i) {
    if (options_.num_samples > 1 && !options_.json) {
      print(fmt::format("{}--- sample {} ---\n", i > 0 ? "\n" : "", i + 1));
    }
    print_one(prompt);
  }
  print_rate();
}

void Sampler::converse() {
  catch_interrupts();
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (terminal) {
    print_error(
        "A line is continued. Ctrl-C ends an answer; Ctrl-D or Ctrl-C at the prompt ends the "
        "program.\n");
  }
  for (std::string line;;) {
    if (terminal && !print("> ")) break;
    if (std::cin.rdbuf()->in_avail() <= 0 && !wait_for_input(STDIN_FILENO)) break;
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    try {
      print_one(line);
    } catch (const Error& error) {  // a character that the model does not have, say
      print_error(fmt::format("{}\n", error.what()));
    }
    forget_interrupt();
  }
  if (terminal) print("\n");
  print_rate();
}

void Sampler::print_rate() const {
  if (tokens_ == 0) return;
  print_error(fmt::format(
      "{} tokens in {:.2f} s: {} tok/s\n", grouped(tokens_), seconds_,
      grouped(static_cast<std::int64_t>(static_cast<double>(tokens_) / std::max(seconds_, 1e-9)))));
}

}  // namespace tapegrad::gpt
