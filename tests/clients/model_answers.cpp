// usage: model_answers MODEL TEXTS OUT
// Writes what the model of a run, or any other that is opened here, answers: OUT.safetensors with
// input_ids (B, T), logits (B, T, V), prompt (P) and greedy (N), what follows it; and OUT.jsonl,
// with a line {"text": …, "ids": […]} of each text of TEXTS, a JSON list. Characters that the
// tokenizer does not have are left out of the texts. The first line of OUT.jsonl is the greedy
// text. compare_export.py compares them with what transformers makes of an export.
// Of a run of seq2seq: OUT.safetensors with sources (B, S), targets (B, T) and logits (B, T, V),
// and in OUT.jsonl some sources, their ids, and their greedy tokens and texts.

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/models/pair_tensors.h"

using namespace tapegrad;

namespace {

// The text without what a tokenizer of characters does not have.
std::string known_part(const data::Tokenizer& tokenizer, const std::string& text) {
  if (tokenizer.kind() != "char") return text;
  std::string vocabulary;
  for (data::Token t = 0; t < tokenizer.vocab_size(); ++t) vocabulary += tokenizer.token_bytes(t);
  std::string known;
  for (std::size_t i = 0; i < text.size();) {
    const std::string c = text.substr(i, first_char(std::string_view(text).substr(i)).size);
    if (vocabulary.find(c) != std::string::npos) known += c;
    i += c.size();
  }
  return known;
}

void write_ids(const run::TextModel& model, const std::string& texts, std::ofstream& out) {
  using nlohmann::json;
  for (const json& text : json::parse(read_file(texts))) {
    const std::string known = known_part(model.tokenizer, text.get<std::string>());
    out << json{{"text", known}, {"ids", model.tokenizer.encode(known, true)}} << "\n";
  }
}

std::vector<data::Token> random_tokens(const data::Tokenizer& tokenizer, std::int64_t count,
                                       Rng& rng) {
  std::vector<data::Token> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<data::Token>(rng.randint(tokenizer.vocab_size())));
  }
  return tokens;
}

std::string text_of(const data::Tokenizer& tokenizer, const std::vector<data::Token>& tokens) {
  Utf8Stream stream;
  std::string text = stream.push(tokenizer.decode(tokens));
  return text += stream.flush();
}

void write_pairs(const run::Translator& t, const std::string& out) {
  const std::int64_t block = t.model.config.block_size;
  const std::int64_t longest = std::min<std::int64_t>(16, block);
  Rng rng(1);
  std::vector<data::TokenPair> pairs;
  for (const std::int64_t shorter : {0, 3}) {
    pairs.push_back({random_tokens(t.tokenizer, std::max<std::int64_t>(1, longest - shorter), rng),
                     random_tokens(t.tokenizer, longest - 1, rng)});
  }
  const run::PairTensors p = run::tensors_of(data::make_batch(pairs, t.special()), t.special());
  save_safetensors(out + ".safetensors", {{"sources", p.sources},
                                          {"targets", p.inputs},
                                          {"logits", t.model(p.sources, p.inputs, p.masks)}});
  std::ofstream lines(out + ".jsonl");
  for (int i = 0; i < 8; ++i) {
    const std::string source = text_of(t.tokenizer, random_tokens(t.tokenizer, 4, rng));
    const auto ids = t.tokenizer.encode(source);
    if (ids.empty() || std::ssize(ids) > block) continue;
    const Tensor one = Tensor::from(ids, {1, std::ssize(ids)});
    lines << nlohmann::json{{"source", source},
                            {"ids", ids},
                            {"greedy", nn::translate(t.model, one, {}, t.options())[0].tokens},
                            {"greedy_text", t.translate({ids}, t.options())[0]}}
          << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    check(argc == 4, "usage: model_answers MODEL TEXTS OUT");
    if (run::is_translator(argv[1])) {
      write_pairs(run::load_translator(argv[1]), argv[3]);
      return 0;
    }
    const run::TextModel model = run::load(argv[1]);
    const nn::DecoderConfig& config = model.gpt.config;
    const std::string out = argv[3];
    const std::int64_t length = std::min<std::int64_t>(24, config.block_size), prompt = length / 4;
    Rng rng(1);
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < 2 * length; ++i) {
      ids.push_back(static_cast<std::int32_t>(rng.randint(model.tokenizer.vocab_size())));
    }
    const Tensor inputs = Tensor::from(ids, {2, length});
    const nn::Tokens first(ids.begin(), ids.begin() + prompt);
    const std::int64_t most = std::min<std::int64_t>(16, config.block_size - prompt);
    const nn::Tokens greedy =
        nn::stream(model.gpt, first, {.max_new_tokens = most, .greedy = true}).tokens();
    const auto tensor_of = [](const nn::Tokens& tokens) {
      return Tensor::from(std::vector<std::int32_t>(tokens.begin(), tokens.end()),
                          {std::ssize(tokens)});
    };
    save_safetensors(out + ".safetensors", {{"input_ids", inputs},
                                            {"logits", model.gpt(inputs)},
                                            {"prompt", tensor_of(first)},
                                            {"greedy", tensor_of(greedy)}});
    std::ofstream lines(out + ".jsonl");
    const std::string text = text_of(model.tokenizer, {greedy.begin(), greedy.end()});
    lines << nlohmann::json{{"greedy_text", text}} << "\n";
    write_ids(model, argv[2], lines);
  } catch (const std::exception& error) {
    fmt::print(stderr, "model_answers: {}\n", error.what());
    return 1;
  }
}
