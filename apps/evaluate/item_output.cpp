#include "tapegrad/apps/evaluate/item_output.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/data/jinja/characters.h"

namespace tapegrad::evaluation {
namespace {

// An empty choice has no length to divide by, and is chosen last.
std::size_t likeliest(const std::vector<double>& logprobs,
                      const std::vector<std::size_t>& lengths) {
  std::vector<double> means;
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    means.push_back(lengths[i] == 0 ? -HUGE_VAL : logprobs[i] / static_cast<double>(lengths[i]));
  }
  return static_cast<std::size_t>(std::max_element(means.begin(), means.end()) - means.begin());
}

}  // namespace

std::vector<Score> scores_of(const ChoiceItem& item, const ItemOutput& output) {
  std::vector<std::size_t> characters, bytes;
  for (const std::string& choice : item.choices) {
    characters.push_back(data::jinja::character_count(choice));
    bytes.push_back(choice.size());
  }
  const std::vector<std::size_t> ones(item.choices.size(), 1);
  const auto score = [&](const char* metric, const std::vector<std::size_t>& lengths) {
    const std::size_t chosen = likeliest(output.logprobs, lengths);
    return Score{.metric = metric, .chosen = chosen, .value = chosen == item.right ? 1.0 : 0.0};
  };
  return {score("acc", ones), score("acc_norm", characters), score("acc_bytes", bytes)};
}

void add_to(Json& line, const ChoiceItem& item, const ItemOutput& output) {
  line["logprobs"] = output.logprobs;
  for (const Score& score : scores_of(item, output)) line[score.metric] = score.chosen;
  line["right"] = item.right;
}

ItemOutput output_of(const std::string& place, const ChoiceItem& item, const Json& line) {
  ItemOutput output;
  get(place, line, "logprobs", output.logprobs);
  check(output.logprobs.size() == item.choices.size(),
        "{}: 'logprobs' has {} numbers, and the item {} choices", place, output.logprobs.size(),
        item.choices.size());
  return output;
}

}  // namespace tapegrad::evaluation
