#include <algorithm>
#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/json/internal/python_json.h"
#include "tapegrad/data/tokenize/bpe/internal/merges_json.h"
#include "tapegrad/data/tokenize/hf/internal/hf_export.h"
#include "tapegrad/data/tokenize/hf/internal/hf_file.h"
#include "tapegrad/data/tokenize/hf/internal/hf_folder_file.h"
#include "tapegrad/data/tokenize/internal/end_tokens_file.h"
#include "tapegrad/data/tokenize/internal/vocabulary.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {

namespace {

using nlohmann::json;

constexpr std::string_view kFormatName = "tapegrad-tokenizer";
constexpr std::int64_t kFormatVersion = 1;
constexpr std::int64_t kMostHfBytes = HfTokenizer::kMaxFileBytes;
constexpr const char* kEndKey = "eos_token_id";
constexpr const char* kPaddedSize = "padded_size";
constexpr std::int64_t kMostPadded = 1 << 24;  // rows that a model may have
// More bytes than the file of any vocabulary of at most Bpe::kMaxSize tokens.
constexpr std::int64_t kMaxFileBytes = std::int64_t{32} << 20;

// Merges are at depth 3. Without a limit, a file of opening brackets would take many times its size
// in memory.
constexpr int kFileDepth = 3;

const json& field(const json& object, const char* name, json::value_t type) {
  const auto found = object.find(name);
  check(found != object.end(), "the field \"{}\" is missing", name);
  const bool is_integer = found->is_number_integer() && type == json::value_t::number_integer;
  check(found->type() == type || is_integer, "the field \"{}\" must be {}, not {}", name,
        type == json::value_t::number_integer ? "an integer" : json(type).type_name(),
        found->type_name());
  return *found;
}

// True if it is a tokenizer.json of Hugging Face's: our own files begin with their format.
bool is_hf(std::string_view text) {
  return text.substr(0, 200).find(kFormatName) == std::string_view::npos &&
         text.find("\"model\"") != std::string_view::npos;
}

// The ends of texts by a config of Hugging Face's: an id, or several. None if it does not
// exist or does not say.
std::vector<std::int64_t> ends_in(const std::filesystem::path& config, Links links) {
  constexpr std::int64_t most_bytes = 1 << 20;
  std::error_code unknown;  // then reading says why
  const auto type = std::filesystem::symlink_status(config, unknown).type();
  if (type == std::filesystem::file_type::not_found) return {};
  const Json file = parse_python_object(config, read_file(config, most_bytes, links));
  const Json value = file.value(kEndKey, Json());
  if (value.is_null()) return {};
  std::vector<std::int64_t> ends;
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    get(config, {{kEndKey, id}}, kEndKey, ends.emplace_back());
  }
  return ends;
}

// The same of a folder that save() has written to.
std::vector<std::int64_t> kept_ends(const std::filesystem::path& folder) {
  const auto ends = ends_in(folder / kGenerationFile, Links::refused);
  return ends.empty() ? ends_in(folder / kEndTokensFile, Links::refused) : ends;
}

}  // namespace

std::string Tokenizer::hf_json() const {
  return std::visit(
      [](const auto& vocabulary) {
        using Vocabulary = std::decay_t<decltype(*vocabulary)>;
        if constexpr (std::is_same_v<Vocabulary, HfTokenizer>) {
          return vocabulary->json();
        } else {
          return hf_json_of(*vocabulary);
        }
      },
      vocabulary_->kind);
}

Tokenizer Tokenizer::of_hf(std::string json) {
  const auto text = std::make_shared<const std::string>(std::move(json));
  return of_hf(HfFile::parse(*text), [text] { return *text; });
}

Tokenizer Tokenizer::of_hf(const HfFile& file, std::function<std::string()> json) {
  if (const auto characters = characters_of_hf(file)) {
    return {"char", std::make_shared<const CharVocabulary>(*characters)};
  }
  return {"hf", std::make_shared<const HfTokenizer>(file, std::move(json))};
}

Tokenizer Tokenizer::padded(std::int64_t vocab_size) const {
  Tokenizer padded = *this;
  padded.padded_size_ = std::max(padded_size_, vocab_size);
  return padded;
}

Tokenizer Tokenizer::with_special(std::span<const std::string_view> names) const {
  std::vector<std::string> missing;
  for (const std::string_view name : names) {
    if (encode(name, true).size() != 1) missing.emplace_back(name);
  }
  if (missing.empty()) return *this;
  check(kind_ != "char", "[tokenizer] the token {} cannot be added to one of characters",
        missing.front());
  const auto first = static_cast<Token>(vocabulary_->size());
  Tokenizer more = of_hf(hf_json_with_special(hf_json(), missing, first));
  more.padded_size_ = padded_size_;
  more.ends_ = ends_;
  return more;
}

Tokenizer Tokenizer::from_hf(const std::filesystem::path& path) {
  try {
    const bool in_folder = is_folder(path);
    auto found = std::make_shared<FoundFile>(in_folder ? hf_file_in(path) : hf_file_at(path));
    // The text alone is kept, if there is one: what was parsed of it takes several times its size.
    std::function<std::string()> json = [found] { return found->file.json_text(); };
    if (!found->text.empty()) json = [text = std::move(found->text)] { return text; };
    const Tokenizer tokenizer = of_hf(found->file, std::move(json));
    std::vector<std::int64_t> ends;
    if (in_folder) ends = ends_in(path / kGenerationFile, Links::followed);
    if (in_folder && ends.empty()) ends = ends_in(path / "config.json", Links::followed);
    if (ends.empty() && found->end && !tokenizer.end_of_text()) ends = {*found->end};
    return tokenizer.ending_at(ends);
  } catch (const Error& error) {
    fail("[tokenizer] '{}' is not a usable tokenizer: {}", path.string(), error.what());
  }
}

Tokenizer Tokenizer::open(const std::filesystem::path& path) {
  const std::filesystem::path file = is_folder(path) ? path / "tokenizer.json" : path;
  const bool is_ours =
      path_exists(file) && file.extension() == ".json" && !is_hf(read_file(file, kMostHfBytes));
  return is_ours ? load(file) : from_hf(path);
}

void Tokenizer::save(const std::filesystem::path& path) const {
  const std::filesystem::path folder = path.parent_path();
  if (!ends_.empty()) {
    const auto said = ends_in(folder / kGenerationFile, Links::refused);
    const bool stays = std::equal(said.begin(), said.end(), ends_.begin(), ends_.end());
    const bool is_theirs = said.empty() && path_exists(folder / kGenerationFile);
    if (!stays) {
      write_json(folder / (is_theirs ? kEndTokensFile : kGenerationFile), {{kEndKey, ends_}});
    }
  }
  write_file_atomically(path, file_text());
}

std::string Tokenizer::file_text() const {
  if (const auto* hf = vocabulary_->get<HfTokenizer>()) return hf->json();
  nlohmann::ordered_json file = {{"format", kFormatName},
                                 {"version", kFormatVersion},
                                 {"kind", kind_},
                                 {"vocab_size", vocabulary_->size()}};
  if (file["vocab_size"] != vocab_size()) file[kPaddedSize] = vocab_size();
  if (kind_ == "char") {
    file["characters"] = vocabulary_->get<CharVocabulary>()->characters();
  } else if (kind_ == "bpe") {
    file["merges"] = vocabulary_->get<Bpe>()->merges();
  }
  return json_text(file) + "\n";
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::string text = read_file(path, kMostHfBytes, Links::refused);
  try {
    const auto ends = kept_ends(path.parent_path());
    if (is_hf(text)) return of_hf(std::move(text)).ending_at(ends);
    check(static_cast<std::int64_t>(text.size()) <= kMaxFileBytes, "it is too large");
    const json file = parse_json<json>(text, kFileDepth);
    check(file.is_object() && file.value("format", json()) == kFormatName,
          "it is not an object with \"format\": \"{}\"", kFormatName);
    const json& version = field(file, "version", json::value_t::number_integer);
    check(version == kFormatVersion, "its version is {}, and this program reads version {}",
          sorted_json_text(version), kFormatVersion);
    const auto kind = field(file, "kind", json::value_t::string).get<std::string>();
    std::optional<Tokenizer> tokenizer;
    if (kind == "char") {
      const auto characters = field(file, "characters", json::value_t::string).get<std::string>();
      tokenizer = Tokenizer("char", std::make_shared<const CharVocabulary>(characters));
    } else if (kind == "bpe") {
      auto merges = merges_of_json(field(file, "merges", json::value_t::array));
      tokenizer = Tokenizer("bpe", std::make_shared<const Bpe>(std::move(merges)));
    } else {
      check(kind == "gpt2", "its kind is '{}', not char, gpt2 or bpe", kind);
      tokenizer = gpt2();
    }
    const json& size = field(file, "vocab_size", json::value_t::number_integer);
    check(size == tokenizer->vocab_size(), "its vocab_size is {}, but it describes {} tokens",
          sorted_json_text(size), tokenizer->vocab_size());
    if (!file.contains(kPaddedSize)) return tokenizer->ending_at(ends);
    const json& padded = field(file, kPaddedSize, json::value_t::number_integer);
    check(padded > size && padded <= kMostPadded, "its {} {} is not from {} to {}", kPaddedSize,
          sorted_json_text(padded), tokenizer->vocab_size() + 1, kMostPadded);
    return tokenizer->padded(padded.get<std::int64_t>()).ending_at(ends);
  } catch (const Error& error) {
    fail("[tokenizer] '{}' is not a usable tokenizer: {}", path.string(), error.what());
  }
}

}  // namespace tapegrad::data
