// usage: encode_texts TOKENIZER TEXTS
// Prints a line [id, …] for each text of TEXTS, a JSON list, as TOKENIZER encodes it with special
// tokens; or the error. TOKENIZER is a tokenizer.json or the folder of one. compare_tokenizers.py
// compares them with Hugging Face's.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/data/tokenize/tokenizer.h"

int main(int argc, char** argv) {
  using namespace tapegrad;
  try {
    check(argc == 3, "usage: encode_texts TOKENIZER TEXTS");
    const data::Tokenizer tokenizer = data::Tokenizer::from_hf(argv[1]);
    for (const nlohmann::json& text : nlohmann::json::parse(read_file(argv[2]))) {
      const std::vector<data::Token> ids = tokenizer.encode(text.get<std::string>(), true);
      fmt::print("[{}]\n", fmt::join(ids, ","));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "encode_texts: {}\n", error.what());
    return 1;
  }
}
