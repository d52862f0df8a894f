#include "tapegrad/data/tokenize/hf/internal/hf_export.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/hf/internal/hf_json.h"
#include "tapegrad/data/tokenize/internal/vocabulary.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;

constexpr int kExportDepth = 16;
constexpr const char* kOrder =
    "its tokens do not stand in GPT-2's order: bytes, then one for each merge";

// The members of an object or list, as JSON. Objects of that size are written without the library,
// whose ordered ones take time that grows with the square.
class Items {
 public:
  void add(const std::string& item) {
    if (!text_.empty()) text_ += ',';
    text_ += item;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string json_string(std::string_view text) { return sorted_json_text(json(text)); }

// All parts that tokenizers asks for, with a model without merges or with them.
std::string file_of(std::string_view added_tokens, std::string_view pre_tokenizer,
                    std::string_view decoder, const Items& vocab, const Items& merges) {
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],"normalizer":null,)"
      R"("pre_tokenizer":{},"post_processor":null,"decoder":{},"model":{{"type":"BPE",)"
      R"("dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
      R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,)"
      R"("vocab":{{{}}},"merges":[{}]}}}})"
      "\n",
      added_tokens, pre_tokenizer, decoder, vocab.text(), merges.text());
}

// Errors for what HfTokenizer knows and Bpe does not.
void check_steps_of_bpe(const json& file, const HfTokenizer& tokenizer) {
  const auto cuts = json_parts(json_member(file, "pre_tokenizer"), "pretokenizers");
  check(cuts.size() == 1 && json_text_at(cuts[0], "type") == "ByteLevel" &&
            !json_flag(cuts[0], "add_prefix_space", true) && json_flag(cuts[0], "use_regex", true),
        "its pre-tokenizer does not cut texts as GPT-2's does");
  check(json_parts(json_member(file, "normalizer"), "normalizers").empty(),
        "its normalizer changes texts");
  check(tokenizer.begin().empty(), "its post-processor puts a token before texts");
  check(!json_flag(json_member(file, "model"), "ignore_merges", false),
        "it looks for whole pieces before it merges (ignore_merges)");
  const json& added = json_member(file, "added_tokens");
  const bool ends = added.is_array() && added.size() == 1 &&
                    json_text_at(added[0], "content") == Bpe::kEndOfTextBytes &&
                    tokenizer.is_added(static_cast<Token>(tokenizer.size() - 1)) &&
                    json_flag(added[0], "special", false) &&
                    !json_flag(added[0], "lstrip", false) && !json_flag(added[0], "rstrip", false);
  check(ends, "its added tokens are not {} alone, as the last token", Bpe::kEndOfTextBytes);
}

}  // namespace

std::string hf_json_of(const CharVocabulary& characters) {
  Items vocab;
  for (Token token = 0; token < characters.size(); ++token) {
    vocab.add(fmt::format("{}:{}", json_string(characters.bytes(token)), token));
  }
  return file_of("", "null", R"({"type":"Fuse"})", vocab, {});
}

std::string hf_json_of(const Bpe& bpe) {
  Items vocab, merges;
  std::unordered_set<std::string_view> seen;
  const auto shown = [&](Token token) { return json_string(shown_bytes(bpe.bytes(token))); };
  for (Token token = 0; token < bpe.size(); ++token) {
    check(seen.insert(bpe.bytes(token)).second,
          "two tokens of the tokenizer have the same bytes, '{}', of which a tokenizer.json can "
          "have one",
          shown_bytes(bpe.bytes(token)));
    vocab.add(fmt::format("{}:{}", shown(token), token));
  }
  for (const auto& [left, right] : bpe.merges()) {
    merges.add(fmt::format("[{},{}]", shown(left), shown(right)));
  }
  const std::string end =
      fmt::format(R"({{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,)"
                  R"("normalized":false,"special":true}})",
                  bpe.end_of_text(), json_string(Bpe::kEndOfTextBytes));
  constexpr std::string_view kByteLevel =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  return file_of(end, kByteLevel, kByteLevel, vocab, merges);
}

std::string hf_json_with_special(std::string_view text, std::span<const std::string> names,
                                 Token first) {
  auto file = parse_json<json>(text, kExportDepth);
  json& added = file["added_tokens"];
  if (!added.is_array()) added = json::array();
  for (const std::string& name : names) {
    added.push_back({{"id", first++},
                     {"content", name},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return sorted_json_text(file);
}

std::string hf_json_without_added(std::string_view text, std::int64_t rows) {
  auto file = parse_json<json>(text, kExportDepth);
  json& added = file["added_tokens"];
  for (auto it = added.begin(); it != added.end();) {
    it = it->at("id").get<std::int64_t>() >= rows ? added.erase(it) : std::next(it);
  }
  return sorted_json_text(file);
}

std::optional<std::string> characters_of_hf(const HfFile& file) {
  const json& rest = file.rest();
  if (!rest.is_object()) return std::nullopt;
  const auto at = [&](const char* pointer) {
    const json::json_pointer place(pointer);
    return rest.contains(place) ? rest.at(place) : json();
  };
  const bool is_ours = at("/decoder") == json{{"type", "Fuse"}} && at("/model/type") == "BPE" &&
                       at("/model/merges").is_array() && file.merges() == 0 &&
                       at("/pre_tokenizer").is_null() && at("/normalizer").is_null() &&
                       at("/post_processor").is_null() && at("/model/unk_token").is_null() &&
                       at("/model/vocab").is_object() &&
                       (at("/added_tokens").is_null() || at("/added_tokens").empty());
  if (!is_ours) return std::nullopt;
  std::vector<std::string> tokens(file.tokens());
  for (std::size_t k = 0; k < file.tokens(); ++k) {
    const json& id = file.id(k);
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= tokens.size()) return std::nullopt;
    tokens[id.get<std::size_t>()] = file.shown(k);
  }
  return characters_of(tokens);
}

Bpe bpe_of_hf(const HfTokenizer& tokenizer) {
  const HfFile file = HfFile::parse(tokenizer.json());
  check_steps_of_bpe(file.rest(), tokenizer);
  std::unordered_map<std::string_view, Token> tokens;
  for (Token token = 0; token < tokenizer.size(); ++token) {
    tokens.emplace(tokenizer.bytes(token), token);
  }
  const auto token_of = [&](std::string_view shown) {
    const auto bytes = bytes_of_shown(shown);
    const auto found = bytes ? tokens.find(*bytes) : tokens.end();
    check(found != tokens.end(), kOrder);
    return found->second;
  };
  std::vector<Merge> merges;
  for (std::size_t i = 0; i < file.merges(); ++i) {
    const auto [left, right] = file.merge(i);
    merges.emplace_back(token_of(left), token_of(right));
  }
  check(tokenizer.size() == std::ssize(merges) + 257, kOrder);
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto [left, right] = merges[i];
    const auto made = static_cast<Token>(256 + i);
    check(left < made && right < made, kOrder);
  }
  Bpe bpe(std::move(merges));
  for (Token token = 0; token < bpe.size(); ++token) {
    check(bpe.bytes(token) == tokenizer.bytes(token), kOrder);
  }
  return bpe;
}

Tokenizer Tokenizer::byte_pairs() const {
  check(kind_ != "char", "it has characters");
  if (kind_ == "bpe") return *this;
  const auto* hf = vocabulary_->get<HfTokenizer>();
  Tokenizer pairs("bpe", hf == nullptr ? Bpe::gpt2() : std::make_shared<const Bpe>(bpe_of_hf(*hf)));
  pairs.padded_size_ = padded_size_;
  pairs.ends_ = ends_;
  return pairs;
}

}  // namespace tapegrad::data
