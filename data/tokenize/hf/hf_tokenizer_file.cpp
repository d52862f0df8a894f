#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"
#include "tapegrad/data/tokenize/hf/internal/hf_file.h"
#include "tapegrad/data/tokenize/hf/internal/hf_json.h"
#include "tapegrad/data/tokenize/hf/internal/hf_models.h"
#include "tapegrad/data/tokenize/hf/steps/internal/hf_steps.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/merges_of_scores.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/sentencepiece_rules.h"

namespace tapegrad::data {

using nlohmann::json;

namespace {

Token token_of(const json& value, std::string_view what, const HfFile& file) {
  check(value.is_number_integer(), "the id of {} must be a whole number, not {}", what,
        value.type_name());
  const auto most = std::min<std::uint64_t>(HfTokenizer::kMaxSize, file.most_tokens());
  check(value.is_number_unsigned() && value.get<std::uint64_t>() < most,
        "the id {} of {} is out of range", sorted_json_text(value), what);
  return value.get<Token>();
}

}  // namespace

// Fills an HfTokenizer from its file.
class HfReader {
 public:
  HfReader(HfTokenizer& into, const HfFile& file) : t_(into), tables_(file), file_(file.rest()) {
    check(file_.is_object() && json_member(file_, "model").is_object(),
          "it has no object \"model\"");
    own_ = read_sentencepiece_rules(file_);
    PreTokenizerOfFile cuts;
    if (!own_) {
      t_.normalizer_ = read_normalizer(json_member(file_, "normalizer"));
      cuts = read_pre_tokenizer(json_member(file_, "pre_tokenizer"));
    }
    t_.pre_tokenizer_ = std::move(cuts.steps);
    texts_ = read_decoder(json_member(file_, "decoder"));
    if (texts_.byte_level != cuts.byte_level) {
      unsupported("ByteLevel in the pre-tokenizer or the decoder alone",
                  json_member(file_, "decoder"));
    }
    const HfVocabulary vocabulary = read_vocabulary();
    if (own_) {
      silence_special_symbols();
      add_symbols(*own_, vocabulary);
    }
    t_.model_ =
        read_piece_model(json_member(file_, "model"), vocabulary, texts_, own_ ? &*own_ : nullptr);
    if (own_) t_.rules_ = std::move(own_->text);
    read_added_tokens(vocabulary);
    if (own_ && own_->unknown) {
      check(static_cast<std::size_t>(*own_->unknown) < known_.size(), "the unknown token is none");
      set_bytes(*own_->unknown, own_->unknown_surface);
    }
    read_post_processor();
  }

 private:
  void set_bytes(Token token, std::string bytes) {
    const auto i = static_cast<std::size_t>(token);
    if (t_.bytes_.size() <= i) {
      t_.bytes_.resize(i + 1);
      known_.resize(i + 1);
    }
    t_.bytes_[i] = std::move(bytes);
    known_[i] = true;
  }

  HfVocabulary read_vocabulary() {
    check(tables_.tokens() > 0, "the model has no \"vocab\", or an empty one");
    HfVocabulary vocabulary(tables_);
    for (std::size_t k = 0; k < tables_.tokens(); ++k) {
      const std::string_view shown = tables_.shown(k);
      check(texts_.byte_level || shown.size() <= kMostScoredBytes,
            "a token has {} bytes; {} are the most", shown.size(), +kMostScoredBytes);
      auto bytes = texts_.bytes_of(shown);
      const Token token = token_of(tables_.id(k), shown, tables_);
      vocabulary.add(bytes ? token : HfVocabulary::kNone);
      const auto i = static_cast<std::size_t>(token);
      check(i >= known_.size() || !known_[i], "'{}' has the id {} of another token", shown, token);
      set_bytes(token, bytes ? *std::move(bytes) : std::string(shown));
    }
    return vocabulary;
  }

  // A user-defined piece that a folder calls a special token is none that a text can spell.
  void silence_special_symbols() {
    for (const json& added : json_member(file_, "added_tokens")) {
      if (!added.is_object() || !json_flag(added, "special", false)) continue;
      const json& id = json_member(added, "id");
      if (!id.is_number_integer()) continue;  // read_added_tokens() says so
      const auto token = id.get<Token>();
      if (own_->symbols.erase(token) != 0) own_->silent.insert(token);
    }
  }

  // True if it is the token of a byte, or merges make it.
  bool is_made(std::string_view shown) {
    if (first_char(shown).size == shown.size()) return true;
    if (merged_.empty()) {
      for (std::size_t i = 0; i < tables_.merges(); ++i) merged_.insert(tables_.merged_text(i));
    }
    return merged_.count(std::string(shown)) != 0;
  }

  // The bytes of an added token: its content is text. That of one which the model makes of pieces,
  // too, is shown as the vocabulary's are.
  std::string bytes_of_added(const std::string& content, Token token,
                             const HfVocabulary& vocabulary) {
    const auto bytes = texts_.bytes_of(content);
    if (!bytes || *bytes == content || vocabulary.find(content) != token) return content;
    return !texts_.byte_level || is_made(content) ? *bytes : content;
  }

  void read_added_tokens(const HfVocabulary& vocabulary) {
    const json& list = json_member(file_, "added_tokens");
    if (list.is_null()) return;
    check(list.is_array(), "\"added_tokens\" must be a list");
    for (const json& added : list) {
      check(added.is_object(), "an added token must be an object");
      const std::string content = json_text_at(added, "content");
      const Token token = token_of(json_member(added, "id"), content, tables_);
      if (json_flag(added, "single_word", false)) unsupported("single_word", added);
      const auto i = static_cast<std::size_t>(token);
      const bool special = json_flag(added, "special", false);
      std::string bytes = bytes_of_added(content, token, vocabulary);
      check(i >= known_.size() || !known_[i] || t_.bytes_[i] == bytes ||
                t_.bytes_[i] == texts_.bytes_of(content).value_or(content),
            "the added token '{}' has the id {} of another token", content, token);
      set_bytes(token, std::move(bytes));
      const bool normalized = json_flag(added, "normalized", !special);
      const AddedTokens::Added found{token, special, json_flag(added, "lstrip", false),
                                     json_flag(added, "rstrip", false)};
      const bool is_symbol = own_ && own_->symbols.count(token) != 0;
      if (is_symbol && !special) {
        // The model finds it.
      } else if (!normalized || own_) {
        t_.raw_.add(content, found);
      } else if (const std::string text = t_.normalizer_(content); !text.empty()) {
        t_.normalized_.add(text, found);
        t_.normalized_special_ = t_.normalized_special_ || special;
      }
      added_.emplace(content, token);
      t_.added_.insert(token);
      if (special) note_end(content, token);
    }
  }

  // Names of the token that ends a document, in the order of preference.
  void note_end(std::string_view content, Token token) {
    constexpr std::string_view names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
    for (std::size_t i = 0; i < std::size(names); ++i) {
      if (content == names[i] && i < end_rank_) {
        end_rank_ = i;
        t_.named_end_ = token;
      }
    }
  }

  void read_post_processor() {
    for (const json& part : json_parts(json_member(file_, "post_processor"), "processors")) {
      const std::string type = json_text_at(part, "type");
      if (type == "ByteLevel") continue;  // it changes offsets alone
      const json& single = json_member(part, "single");
      if (type != "TemplateProcessing" || !single.is_array() || single.empty()) {
        unsupported("the post-processor", part);
      }
      bool behind = false;  // the text
      for (const json& piece : single) {
        const bool is_text = piece.is_object() && piece.contains("Sequence");
        if (!piece.is_object() || (!is_text && !piece.contains("SpecialToken")) ||
            (is_text && behind)) {
          unsupported("the post-processor", part);
        }
        if (is_text) {
          behind = true;
          continue;
        }
        const std::string name = json_text_at(piece.at("SpecialToken"), "id");
        const auto found = added_.find(name);
        check(found != added_.end(), "the post-processor's token '{}' is not among the added ones",
              name);
        if (behind) {  // a token behind a text ends it
          t_.named_end_ = found->second;
        } else {
          t_.begin_.push_back(found->second);
        }
      }
      if (!behind) unsupported("the post-processor", part);
    }
  }

  HfTokenizer& t_;
  const HfFile& tables_;
  const json& file_;         // all but the tables
  std::vector<bool> known_;  // which ids have a token
  TokenTexts texts_;
  std::optional<SentencePieceRules> own_;
  std::unordered_map<std::string, Token> added_;
  std::unordered_set<std::string> merged_;  // the results of merges; read when they are needed
  std::size_t end_rank_ = SIZE_MAX;
};

HfTokenizer::HfTokenizer(const HfFile& file, std::function<std::string()> json)
    : json_(std::move(json)) {
  HfReader(*this, file);
}

HfTokenizer::HfTokenizer(const std::string& json)
    : HfTokenizer(HfFile::parse(json), [json] { return json; }) {}

std::string tokenizer_json_of(std::string_view vocab_json, std::string_view merges_txt) {
  const std::string end = "<|endoftext|>";
  json vocab = parse_json<json>(vocab_json, 2);
  check(vocab.is_object(), "the vocabulary is not an object");
  json merges = json::array();
  for (std::size_t at = 0; at < merges_txt.size();) {
    const std::size_t line_end = std::min(merges_txt.find('\n', at), merges_txt.size());
    std::string_view line = merges_txt.substr(at, line_end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_header = at == 0 && line.starts_with("#version");
    if (!line.empty() && !is_header) merges.push_back(line);
    at = line_end + 1;
  }
  json added = json::array();
  if (vocab.contains(end)) {
    added.push_back({{"id", vocab[end]},
                     {"content", end},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  return sorted_json_text(json{{"version", "1.0"},
                               {"added_tokens", added},
                               {"pre_tokenizer", byte_level},
                               {"decoder", byte_level},
                               {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}});
}

}  // namespace tapegrad::data
