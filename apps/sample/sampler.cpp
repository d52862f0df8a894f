#include "tapegrad/apps/sample/sampler.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tapegrad/apps/sample/line_editor.h"
#include "tapegrad/apps/sample/stop_text.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/plan/available_memory.h"

namespace tapegrad::sampling {
namespace {

bool print(std::string_view piece) {
  std::fwrite(piece.data(), 1, piece.size(), stdout);
  return std::fflush(stdout) == 0 && !interrupted();
}

// How many texts run side by side: as many as half of the free memory has caches for, or one.
nn::GenerationLimits limits_for(const nn::DecoderConfig& c) {
  nn::GenerationLimits limits;
  const auto memory = run::available_memory();
  if (!memory) return limits;
  const double position =
      2.0 * c.n_layer * c.kv_heads() * static_cast<double>(c.channels_per_head()) * sizeof(float);
  const auto most = static_cast<std::int64_t>(memory->bytes / 2 / position);
  limits.max_positions = std::clamp(most, c.block_size, limits.max_sequences * c.block_size);
  return limits;
}

// A token's text as in JSON, so that each stays on a line.
std::string quoted_text(const std::string& bytes) { return json_text(bytes); }

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
  std::vector<nn::Tokens> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(model_.tokens_of(prompt));
  nn::GenerateOptions options = options_.generate;
  options.logprobs = options_.logprobs;
  if (!options_.ignore_eos) options.stop_tokens = model_.tokenizer.ends();
  return {model_.gpt,
          std::move(tokens),
          options,
          rng_,
          {.times = times,
           .leaves_texts = !options_.stops.empty(),
           .limits = limits_for(model_.gpt.config)}};
}

// Makes the stream's current text, and passes on what may be shown of it.
template <class OnText>
std::vector<nn::NewToken> Sampler::make(nn::TokenStream& stream, const OnText& on_text) {
  std::vector<nn::NewToken> pieces;
  StopText stop(options_.stops);
  const auto begin = std::chrono::steady_clock::now();
  tokens_ += run::stream_text(
      stream, model_.tokenizer,
      [&](std::string_view piece) {
        const std::string shown = stop.push(piece);
        return (shown.empty() || on_text(shown)) && !stop.stopped() && !interrupted();
      },
      [&](const nn::NewToken& t) {
        if (options_.logprobs) pieces.push_back(t);
      });
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (const std::string rest = stop.flush(); !rest.empty()) on_text(rest);
  return pieces;
}

void Sampler::print_text(const std::string& prompt, nn::TokenStream& stream) {
  print(prompt);
  print_pieces(make(stream, print));
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

void Sampler::print_json(const std::string& prompt, nn::TokenStream& stream) {
  std::string text;
  const std::vector<nn::NewToken> pieces = make(stream, [&](std::string_view piece) {
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

void Sampler::print_one(const std::string& prompt, nn::TokenStream& stream) {
  options_.json ? print_json(prompt, stream) : print_text(prompt, stream);
}

// Above text number `text` of several: which prompt and which of its samples it is.
void Sampler::print_heading(std::size_t text, std::size_t prompts) const {
  const auto times = static_cast<std::size_t>(options_.num_samples);
  std::string name;
  if (prompts > 1) name = fmt::format("prompt {}", text / times + 1);
  if (times > 1) name += fmt::format("{}sample {}", prompts > 1 ? ", " : "", text % times + 1);
  print(fmt::format("{}--- {} ---\n", text > 0 ? "\n" : "", name));
}

void Sampler::print_samples(const std::vector<std::string>& prompts) {
  catch_interrupts();
  const auto times = static_cast<std::size_t>(options_.num_samples);
  std::size_t text = 0;
  nn::TokenStream stream = stream_of(prompts, options_.num_samples);
  for (const std::string& prompt : prompts) {
    for (std::size_t i = 0; i < times && !interrupted() && std::ferror(stdout) == 0; ++i) {
      if (prompts.size() * times > 1 && !options_.json) print_heading(text++, prompts.size());
      print_one(prompt, stream);
      stream.next_text();
    }
  }
  print_rate();
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
    } catch (const Error& error) {  // a character that the model does not have, say
      print_error(fmt::format("{}\n", error.what()));
    }
    forget_interrupt();
  }
  print_rate();
}

void Sampler::print_rate() const {
  if (tokens_ == 0) return;
  print_error(fmt::format(
      "{} tokens in {:.2f} s: {} tok/s\n", grouped(tokens_), seconds_,
      grouped(static_cast<std::int64_t>(static_cast<double>(tokens_) / std::max(seconds_, 1e-9)))));
}

}  // namespace tapegrad::sampling
