// usage: encode_texts TOKENIZER TEXTS
// Prints a line {"ids": [id, …], "text": T, "stream": S} for each text of TEXTS, a JSON list, as
// TOKENIZER encodes it with special tokens, and decodes it, at once and token by token; or the
// error. TOKENIZER is a tokenizer.json or the folder of one. compare_tokenizers.py compares them
// with Hugging Face's.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/decode_text.h"
#include "tapegrad/data/tokenize/tokenizer.h"

int main(int argc, char** argv) {
  using namespace tapegrad;
  try {
    check(argc == 3, "usage: encode_texts TOKENIZER TEXTS");
    const data::Tokenizer tokenizer = data::Tokenizer::from_hf(argv[1]);
    for (const nlohmann::json& text : nlohmann::json::parse(read_file(argv[2]))) {
      const std::vector<data::Token> ids = tokenizer.encode(text.get<std::string>(), true);
      Utf8Stream at_once, by_tokens;
      std::string whole = at_once.push(decode_text(tokenizer, ids)), stream;
      whole += at_once.flush();
      for (const data::Token id : ids) stream += by_tokens.push(tokenizer.token_bytes(id));
      stream += by_tokens.flush();
      // A stream keeps the space that a whole text begins with.
      const std::size_t begin = stream.size() - std::min(stream.size(), whole.size());
      fmt::print(
          "{}\n",
          nlohmann::json{{"ids", ids}, {"text", whole}, {"stream", stream.substr(begin)}}.dump());
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "encode_texts: {}\n", error.what());
    return 1;
  }
}
