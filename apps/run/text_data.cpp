#include "tapegrad/run/text_data.h"

#include "tapegrad/data/corpus.h"

namespace tapegrad::run {
namespace {

constexpr double kTrainShare = 0.9;

void check_length(const std::vector<data::Token>& tokens, std::string_view split,
                  std::int64_t block_size) {
  check(static_cast<std::int64_t>(tokens.size()) > block_size,
        "the corpus is too short: its {} part has {} tokens, and --block-size {} needs at least "
        "{}. Use more text or a smaller --block-size",
        split, tokens.size(), block_size, block_size + 1);
}

}  // namespace

void check_tokenizer(const std::string& spec) {
  if (spec == "char" || spec == "gpt2" || data::is_path_of_tokenizer(spec)) return;
  const std::optional<std::int64_t> size = data::bpe_size(spec);
  check(size && *size >= 257 && *size <= data::Bpe::kMaxSize,
        "--tokenizer: '{}' is not char, gpt2, the path of a tokenizer.json, or bpe:N with N tokens "
        "from 257 to {}, such as bpe:1024",
        spec, +data::Bpe::kMaxSize);
}

void TextOptions::validate() const {
  check_tokenizer(tokenizer);
  check(data::is_encoding(encoding),
        "--encoding: there is no encoding '{}'; `iconv --list` has all", encoding);
  check(!source().reads_stdin() || corpus.size() == 1,
        "--corpus: - (stdin) cannot be read beside other texts");
  check(in_passes() || !stride, "--stride needs --batches epochs");
}

data::Tokenizer make_tokenizer(const TextOptions& o, const std::function<Text()>& read) {
  if (o.tokenizer == "gpt2") return data::Tokenizer::gpt2();
  if (data::is_path_of_tokenizer(o.tokenizer)) return data::Tokenizer::from_hf(o.tokenizer);
  const Text text = read();
  // A character that only the validation part has must be in the vocabulary, too.
  return data::make_tokenizer(o.tokenizer, data::bpe_size(o.tokenizer)
                                               ? data::split_text(text.contents, kTrainShare).train
                                               : text.contents);
}

TextData tokenize(const Text& text, const data::Tokenizer& tokenizer, std::int64_t block_size) {
  const data::TextSplit split = data::split_text(text.contents, kTrainShare);
  TextData data{tokenizer, tokenizer.encode(split.train), tokenizer.encode(split.val)};
  check_length(data.train, "training", block_size);
  check_length(data.val, "validation", block_size);
  return data;
}

}  // namespace tapegrad::run
