// usage: model_answers MODEL TEXTS OUT
// Writes what the model of a run, or any other that is opened here, answers: OUT.safetensors with
// input_ids (B, T), logits (B, T, V), prompt (P) and greedy (N), what follows it; and OUT.jsonl,
// with a line {"text": …, "ids": […]} of each text of TEXTS, a JSON list. Characters that the
// tokenizer does not have are left out of the texts. The first line of OUT.jsonl is the greedy
// text. compare_export.py compares them with what transformers makes of an export.

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/run/models/model.h"

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

}  // namespace

int main(int argc, char** argv) {
  try {
    check(argc == 4, "usage: model_answers MODEL TEXTS OUT");
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
    Utf8Stream stream;
    std::string text = stream.push(model.tokenizer.decode(greedy));
    text += stream.flush();
    lines << nlohmann::json{{"greedy_text", text}} << "\n";
    write_ids(model, argv[2], lines);
  } catch (const std::exception& error) {
    fmt::print(stderr, "model_answers: {}\n", error.what());
    return 1;
  }
}
