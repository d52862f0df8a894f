#include "tapegrad/data/tokenize/hf/internal/hf_models.h"

#include <cmath>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/bpe/byte_pairs.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/hf/internal/hf_json.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/char_pairs.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/sentencepiece_rules.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/unigram.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;

constexpr Token kNone = HfVocabulary::kNone;

// Calls add(pair, left, right, token, rank) for each merge of the file.
template <class Add>
void each_merge(const json& model, const HfVocabulary& vocabulary, const Add& add) {
  check(json_member(model, "merges").is_array(), "the model needs a list \"merges\"");
  const HfFile& file = vocabulary.file();
  std::string both;
  std::size_t next = 0;  // where training puts the token of the next merge
  for (std::size_t i = 0; i < file.merges(); ++i) {
    const auto [left, right] = file.merge(i);
    check(!left.empty() && !right.empty(), "merge {} has an empty part", i);
    both.assign(left).append(right);
    const Merge pair = {vocabulary[vocabulary.place_in_merge(left, i)],
                        vocabulary[vocabulary.place_in_merge(right, i)]};
    const bool is_next =
        next < vocabulary.size() && vocabulary.shown(next) == both && vocabulary[next] != kNone;
    if (!is_next) next = vocabulary.place_in_merge(both, i);
    // Hugging Face takes the last merge of a pair that is there twice. Training makes no such
    // file.
    check(add(pair, left, right, vocabulary[next++], file.rank(i)),
          "merge {} repeats an earlier one", i);
  }
}

// Pieces that are a token as a whole, if the model takes them for it.
template <class Pairs>
void add_wholes(Pairs& pairs, const json& model, const HfVocabulary& vocabulary,
                const TokenTexts& texts) {
  if (!json_flag(model, "ignore_merges", false)) return;
  for (std::size_t k = 0; k < vocabulary.size(); ++k) {
    if (vocabulary[k] == kNone) continue;
    const std::string_view shown = vocabulary.shown(k);
    pairs.add_whole(texts.byte_level ? *bytes_of_shown(shown) : std::string(shown), vocabulary[k]);
  }
}

std::shared_ptr<const PieceModel> read_byte_pairs(const json& model, const HfVocabulary& vocabulary,
                                                  const TokenTexts& texts) {
  if (json_flag(model, "byte_fallback", false)) unsupported("byte_fallback", json(true));
  auto pairs = std::make_shared<BytePairs>();
  BytePairs::ByteTokens token_of_byte{};
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes[] = {static_cast<char>(byte)};
    const Token found = vocabulary.find(shown_bytes({bytes, 1}));
    check(found != kNone, "the vocabulary has no token for the byte {}", byte);
    token_of_byte[static_cast<std::size_t>(byte)] = found;
  }
  pairs->set_bytes(token_of_byte);
  pairs->reserve(vocabulary.file().merges());
  add_wholes(*pairs, model, vocabulary, texts);
  each_merge(model, vocabulary,
             [&](Merge pair, std::string_view, std::string_view, Token token, std::size_t) {
               return pairs->add(pair, token);
             });
  return pairs;
}

UnknownText read_unknown(const json& model, const HfVocabulary& vocabulary) {
  UnknownText unknown;
  if (json_flag(model, "byte_fallback", false)) {
    for (int byte = 0; byte < 256; ++byte) {
      unknown.of_byte[static_cast<std::size_t>(byte)] =
          vocabulary.find(fmt::format("<0x{:02X}>", byte));
    }
  }
  return unknown;
}

std::shared_ptr<const PieceModel> read_char_pairs(const json& model, const HfVocabulary& vocabulary,
                                                  const TokenTexts& texts,
                                                  const SentencePieceRules* own) {
  auto pairs = std::make_shared<CharPairs>();
  UnknownText unknown = read_unknown(model, vocabulary);
  if (!json_member(model, "unk_token").is_null()) {
    const std::string name = json_text_at(model, "unk_token");
    unknown.token = vocabulary.find(name);
    check(unknown.token != kNone, "the unk_token '{}' is not in the vocabulary", name);
  }
  unknown.fused = json_flag(model, "fuse_unk", false);
  check(unknown.token || unknown.has_all_bytes(),
        "characters that the vocabulary lacks would be left out without a word: the model has "
        "neither an unk_token nor tokens of all bytes with byte_fallback");
  pairs->set_unknown(unknown);
  for (std::size_t k = 0; k < vocabulary.size(); ++k) {
    const std::string_view shown = vocabulary.shown(k);
    const bool silent = own != nullptr && own->silent.count(vocabulary[k]) != 0;
    if (shown.empty() || silent) continue;
    if (own != nullptr && own->symbols.count(vocabulary[k]) != 0) {
      pairs->add_symbol(shown, vocabulary[k]);
    } else if (first_char(shown).size == shown.size()) {
      pairs->set_char(shown, vocabulary[k]);
    }
  }
  pairs->reserve(vocabulary.file().merges());
  add_wholes(*pairs, model, vocabulary, texts);
  each_merge(model, vocabulary,
             [&](Merge pair, std::string_view left, std::string_view right, Token token,
                 std::size_t rank) { return pairs->add(pair, left, right, token, rank); });
  return pairs;
}

std::shared_ptr<const PieceModel> read_unigram(const json& model, const HfVocabulary& vocabulary,
                                               const SentencePieceRules* own) {
  const HfFile& file = vocabulary.file();
  check(file.has_scores(), "the model Unigram needs a list \"vocab\" of texts and scores");
  auto unigram = std::make_shared<Unigram>();
  UnknownText unknown = read_unknown(model, vocabulary);
  const json& id = json_member(model, "unk_id");
  if (!id.is_null()) {
    check(id.is_number_unsigned() && id.get<std::uint64_t>() < vocabulary.size(),
          "the unk_id {} is no token", id.is_number() ? id.get<double>() : -1);
    unknown.token = vocabulary[id.get<std::size_t>()];
  }
  unigram->set_unknown(unknown);
  for (std::size_t k = 0; k < vocabulary.size(); ++k) {
    check(std::isfinite(file.score(k)), "the score of '{}' is not finite", vocabulary.shown(k));
    const bool ordinary =
        own == nullptr || own->silent.count(vocabulary[k]) + own->symbols.count(vocabulary[k]) == 0;
    if (!vocabulary.shown(k).empty() && ordinary) {
      unigram->add(vocabulary.shown(k), vocabulary[k], file.score(k));
    }
  }
  if (own == nullptr) return unigram;
  for (std::size_t k = 0; k < vocabulary.size(); ++k) {
    if (own->symbols.count(vocabulary[k]) == 0 || vocabulary.shown(k).empty()) continue;
    unigram->add_symbol(vocabulary.shown(k), vocabulary[k]);
  }
  unigram->cut_at_marks();
  return unigram;
}

}  // namespace

std::shared_ptr<const PieceModel> read_piece_model(const json& model,
                                                   const HfVocabulary& vocabulary,
                                                   const TokenTexts& texts,
                                                   const SentencePieceRules* own) {
  const json& type = json_member(model, "type");
  const json& vocab = json_member(model, "vocab");
  if (type == json("Unigram") && !texts.byte_level) return read_unigram(model, vocabulary, own);
  if (!type.is_null() && type != json("BPE")) unsupported("the model", type);
  check(vocab.is_object(), "the model needs an object \"vocab\"");
  const json& dropout = json_member(model, "dropout");
  if (!dropout.is_null() && dropout != json(0) && dropout != json(0.0)) {
    unsupported("dropout", dropout);
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json& value = json_member(model, name);
    if (!value.is_null() && value != json("")) unsupported(name, value);
  }
  return texts.byte_level ? read_byte_pairs(model, vocabulary, texts)
                          : read_char_pairs(model, vocabulary, texts, own);
}

}  // namespace tapegrad::data
