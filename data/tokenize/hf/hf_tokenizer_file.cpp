#include <nlohmann/json.hpp>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "tapegrad/base/error.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/data/tokenize/bpe/byte_alphabet.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"

namespace tapegrad::data {

using nlohmann::json;

namespace {

constexpr int kDepth = 16;

// The member, or null if there is none.
const json& member(const json& object, const char* name) {
  static const json null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

std::string text_of(const json& object, const char* name) {
  const json& value = member(object, name);
  check(value.is_string(), "\"{}\" must be a text, not {}", name, value.type_name());
  return value.get<std::string>();
}

bool flag_of(const json& object, const char* name, bool absent) {
  const json& value = member(object, name);
  if (value.is_null()) return absent;
  check(value.is_boolean(), "\"{}\" must be true or false, not {}", name, value.type_name());
  return value.get<bool>();
}

// A file of so many bytes describes fewer tokens; an id beyond would only make a hole.
Token token_of(const json& value, std::string_view what, std::size_t file_bytes) {
  check(value.is_number_integer(), "the id of {} must be a whole number, not {}", what,
        value.type_name());
  const auto most = std::min<std::uint64_t>(HfTokenizer::kMaxSize, file_bytes);
  check(value.is_number_unsigned() && value.get<std::uint64_t>() < most,
        "the id {} of {} is out of range", sorted_json_text(value), what);
  return value.get<Token>();
}

// Something that the file asks for and that would change ids if it were left out.
[[noreturn]] void unsupported(std::string_view what, const json& value) {
  const std::string shown = sorted_json_text(value);
  fail("{} is not supported: {}", what, shown.substr(0, 200));
}

// The parts of a list that may stand alone: {"type": "Sequence", NAME: […]}, one object, or null.
std::vector<json> parts_of(const json& value, const char* name) {
  if (value.is_null()) return {};
  check(value.is_object(), "\"{}\" must be an object, not {}", name, value.type_name());
  if (text_of(value, "type") != "Sequence") return {value};
  const json& list = member(value, name);
  check(list.is_array(), "a Sequence needs a list \"{}\"", name);
  std::vector<json> parts;
  for (const json& part : list) {
    for (json& inner : parts_of(part, name)) parts.push_back(std::move(inner));
  }
  return parts;
}

// PCRE2's special characters.
std::string escaped(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace

// Fills an HfTokenizer from its file.
class HfReader {
 public:
  HfReader(HfTokenizer& into, const json& file) : t_(into), file_(file) {
    check(file.is_object() && member(file, "model").is_object(), "it has no object \"model\"");
    read_normalizer();
    read_pre_tokenizer();
    read_decoder();
    read_model();
    read_added_tokens();
    read_post_processor();
  }

 private:
  void read_normalizer() {
    for (const json& part : parts_of(member(file_, "normalizer"), "normalizers")) {
      if (text_of(part, "type") != "NFC") unsupported("the normalizer", part);
      t_.nfc_ = true;
    }
  }

  void read_pre_tokenizer() {
    const auto parts = parts_of(member(file_, "pre_tokenizer"), "pretokenizers");
    check(parts.size() <= PreTokenizer::kMostSteps,
          "the pre-tokenizer has {} steps; {} are the most that are read", parts.size(),
          +PreTokenizer::kMostSteps);
    bool byte_level = false;
    for (const json& part : parts) {
      const std::string type = text_of(part, "type");
      if (byte_level) unsupported("a pre-tokenizer behind ByteLevel", part);
      if (type == "ByteLevel") {
        byte_level = true;
        if (flag_of(part, "add_prefix_space", true)) unsupported("add_prefix_space", part);
        if (flag_of(part, "use_regex", true)) t_.pre_tokenizer_.add_gpt2();
      } else if (type == "Digits") {
        const bool single = flag_of(part, "individual_digits", false);
        t_.pre_tokenizer_.add_split(SplitRegex(single ? "\\p{N}" : "\\p{N}+"));
      } else if (type == "Split") {
        read_split(part);
      } else {
        unsupported("the pre-tokenizer", part);
      }
    }
    check(byte_level, "only byte-level models are supported: there is no pre-tokenizer ByteLevel");
  }

  void read_split(const json& part) {
    const bool isolated =
        text_of(part, "behavior") == "Isolated" && !flag_of(part, "invert", false);
    const json& pattern = member(part, "pattern");
    if (!isolated || !pattern.is_object()) unsupported("the pre-tokenizer", part);
    t_.pre_tokenizer_.add_split(SplitRegex(pattern.contains("String")
                                               ? escaped(text_of(pattern, "String"))
                                               : text_of(pattern, "Regex")));
  }

  void read_decoder() {
    const json& decoder = member(file_, "decoder");
    const auto parts = parts_of(decoder, "decoders");
    if (parts.size() != 1 || text_of(parts[0], "type") != "ByteLevel") {
      unsupported("the decoder", decoder);
    }
  }

  void read_model() {
    const json& model = member(file_, "model");
    const json& type = member(model, "type");
    if (!type.is_null() && type != json("BPE")) unsupported("the model", type);
    const json& dropout = member(model, "dropout");
    if (!dropout.is_null() && dropout != json(0) && dropout != json(0.0)) {
      unsupported("dropout", dropout);
    }
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json& value = member(model, name);
      if (!value.is_null() && value != json("")) unsupported(name, value);
    }
    if (flag_of(model, "byte_fallback", false)) unsupported("byte_fallback", json(true));
    read_vocabulary(member(model, "vocab"));
    if (flag_of(model, "ignore_merges", false)) {
      for (const auto& [shown, token] : token_of_) {
        t_.pairs_.add_whole(t_.bytes_[static_cast<std::size_t>(token)], token);
      }
    }
    read_merges(member(model, "merges"));
  }

  void set_bytes(Token token, std::string bytes) {
    const auto i = static_cast<std::size_t>(token);
    if (t_.bytes_.size() <= i) {
      t_.bytes_.resize(i + 1);
      known_.resize(i + 1);
    }
    t_.bytes_[i] = std::move(bytes);
    known_[i] = true;
  }

  void read_vocabulary(const json& vocab) {
    check(vocab.is_object() && !vocab.empty(), "the model needs an object \"vocab\"");
    token_of_.reserve(vocab.size());
    for (const auto& [shown, id] : vocab.get_ref<const json::object_t&>()) {
      const Token token = token_of(id, shown, t_.json_.size());
      const auto i = static_cast<std::size_t>(token);
      check(i >= known_.size() || !known_[i], "'{}' has the id {} of another token", shown, token);
      // A token that is not written in bytes can only be an added one.
      auto bytes = bytes_of_shown(shown);
      if (bytes) token_of_.emplace(shown, token);
      set_bytes(token, bytes ? *std::move(bytes) : shown);
    }
    BytePairs::ByteTokens token_of_byte{};
    for (int byte = 0; byte < 256; ++byte) {
      const char bytes[] = {static_cast<char>(byte)};
      const auto found = token_of_.find(shown_bytes({bytes, 1}));
      check(found != token_of_.end(), "the vocabulary has no token for the byte {}", byte);
      token_of_byte[static_cast<std::size_t>(byte)] = found->second;
    }
    t_.pairs_.set_bytes(token_of_byte);
  }

  Token part_of_merge(std::string_view shown, std::size_t merge) const {
    const auto found = token_of_.find(shown);
    check(found != token_of_.end(), "merge {} needs '{}', which is not in the vocabulary", merge,
          shown);
    return found->second;
  }

  // The two tokens of a merge: ["Ġ", "t"], or "Ġ t" in older files.
  static std::pair<std::string_view, std::string_view> shown_parts(const json& merge,
                                                                   std::size_t i) {
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      check(space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos,
            "merge {} is not two tokens: '{}'", i, text);
      return {text.substr(0, space), text.substr(space + 1)};
    }
    check(merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string(),
          "merge {} is not a pair of texts", i);
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }

  void read_merges(const json& merges) {
    check(merges.is_array(), "the model needs a list \"merges\"");
    t_.pairs_.reserve(merges.size());
    std::string both;
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const auto [left, right] = shown_parts(merges[i], i);
      both.assign(left).append(right);
      const Merge pair = {part_of_merge(left, i), part_of_merge(right, i)};
      // Hugging Face takes the last merge of a pair that is there twice. Training makes no such
      // file.
      check(t_.pairs_.add(pair, part_of_merge(both, i)), "merge {} repeats an earlier one", i);
    }
  }

  void read_added_tokens() {
    const json& list = member(file_, "added_tokens");
    if (list.is_null()) return;
    check(list.is_array(), "\"added_tokens\" must be a list");
    for (const json& added : list) {
      check(added.is_object(), "an added token must be an object");
      const std::string content = text_of(added, "content");
      const Token token = token_of(member(added, "id"), content, t_.json_.size());
      for (const char* name : {"single_word", "lstrip", "rstrip"}) {
        if (flag_of(added, name, false)) unsupported(name, added);
      }
      const auto i = static_cast<std::size_t>(token);
      const std::string bytes = bytes_of_shown(content).value_or(content);
      check(i >= known_.size() || !known_[i] || t_.bytes_[i] == bytes,
            "the added token '{}' has the id {} of another token", content, token);
      set_bytes(token, bytes);
      const bool special = flag_of(added, "special", false);
      const bool normalized = flag_of(added, "normalized", !special);
      if (normalized) {
        t_.normalized_.add(t_.nfc_ ? nfc(content) : content, token, special);
      } else {
        t_.raw_.add(content, token, special);
      }
      added_.emplace(content, token);
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
    for (const json& part : parts_of(member(file_, "post_processor"), "processors")) {
      const std::string type = text_of(part, "type");
      if (type == "ByteLevel") continue;  // it changes offsets alone
      const json& single = member(part, "single");
      if (type != "TemplateProcessing" || !single.is_array() || single.empty()) {
        unsupported("the post-processor", part);
      }
      for (std::size_t i = 0; i < single.size(); ++i) {
        const bool last = i + 1 == single.size();
        const json& piece = single[i];
        const bool fits = piece.is_object() && piece.contains(last ? "Sequence" : "SpecialToken");
        if (!fits) unsupported("the post-processor", part);
        if (last) break;
        const std::string name = text_of(piece.at("SpecialToken"), "id");
        const auto found = added_.find(name);
        check(found != added_.end(), "the post-processor's token '{}' is not among the added ones",
              name);
        t_.begin_.push_back(found->second);
      }
    }
  }

  HfTokenizer& t_;
  const json& file_;
  std::vector<bool> known_;                               // which ids have a token
  std::unordered_map<std::string_view, Token> token_of_;  // by the way that file_ shows them
  std::unordered_map<std::string, Token> added_;
  std::size_t end_rank_ = SIZE_MAX;
};

HfTokenizer::HfTokenizer(std::string text) : json_(std::move(text)) {
  {
    const auto file = parse_json<nlohmann::json>(json_, kDepth);
    HfReader(*this, file);
  }
#ifdef __GLIBC__
  // The parsed file has taken several times its size, which lies in small pieces between what is
  // kept: the C library would hold on to it.
  ::malloc_trim(0);
#endif
}

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
