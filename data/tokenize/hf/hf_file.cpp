#include "tapegrad/data/tokenize/hf/internal/hf_file.h"

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/json/internal/json_table.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;

constexpr int kDepth = 16;

// In merges_, what stands between the texts of a pair, and a merge that is none: texts of a JSON
// file have no NUL in them.
constexpr char kBetween = '\0';
constexpr std::string_view kNoMerge("\0\0", 2);

}  // namespace

HfFile HfFile::parse(std::string_view text) {
  HfFile file(json(), text.size());
  const JsonTable tables[] = {
      {"/model/vocab",
       [&](std::string_view shown, const json& id) {
         // Elements of a list have no name.
         shown.empty() && id.is_array() ? file.add_scored(id) : file.add_token(shown, id);
       }},
      {"/model/merges", [&](std::string_view, const json& merge) { file.add_merge(merge); }}};
  file.rest_ = parse_json_with_tables(text, kDepth, tables);
  return file;
}

void HfFile::add_scored(const json& pair) {
  const bool fits = pair.size() == 2 && pair[0].is_string() && pair[1].is_number();
  check(fits, "token {} of the list \"vocab\" is not a text and its score", ids_.size());
  add_token(pair[0].get_ref<const std::string&>(), ids_.size(), pair[1].get<double>());
}

void HfFile::add_merge(std::string_view left, std::string_view right, std::size_t rank) {
  merges_.add(std::string(left).append(1, kBetween).append(right));
  ranks_.push_back(rank);
}

void HfFile::add_merge(const json& merge) {
  if (merge.is_string()) return add_merge(std::string_view(merge.get_ref<const std::string&>()));
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
    return merges_.add(kNoMerge);
  }
  std::string both = merge[0].get_ref<const std::string&>();
  merges_.add(both.append(1, kBetween).append(merge[1].get_ref<const std::string&>()));
}

std::pair<std::string_view, std::string_view> HfFile::merge(std::size_t i) const {
  const std::string_view text = merges_[i];
  check(text != kNoMerge, "merge {} is not a pair of texts", i);
  std::size_t between = text.find(kBetween);
  if (between == std::string_view::npos) {
    between = text.find(' ');
    check(
        between != std::string_view::npos && text.find(' ', between + 1) == std::string_view::npos,
        "merge {} is not two tokens: '{}'", i, text);
  }
  return {text.substr(0, between), text.substr(between + 1)};
}

std::string HfFile::json_text() const {
  json file = rest_;
  json& vocab = file["model"]["vocab"];
  for (std::size_t k = 0; k < tokens(); ++k) {
    if (has_scores()) {
      vocab.push_back({shown(k), score(k)});
    } else {
      vocab[std::string(shown(k))] = id(k);
    }
  }
  for (std::size_t i = 0; i < merges(); ++i) {
    const auto [left, right] = merge(i);
    // There, merges go in their order: of two with equal scores, one would always go first.
    if (i > 0 && rank(i) == rank(i - 1) && merged_text(i) != merged_text(i - 1)) {
      fail("the tokens '{}' and '{}' have equal scores, which a tokenizer.json cannot say",
           merged_text(i - 1), merged_text(i));
    }
    file["model"]["merges"].push_back({left, right});
  }
  return sorted_json_text(file);
}

}  // namespace tapegrad::data
