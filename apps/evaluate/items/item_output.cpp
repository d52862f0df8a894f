#include "tapegrad/apps/evaluate/items/item_output.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/apps/evaluate/items/metrics.h"
#include "tapegrad/data/jinja/internal/characters.h"

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

std::vector<Score> scores_of_choices(const Item& item, const std::vector<double>& logprobs) {
  std::vector<std::size_t> characters, bytes;
  for (const std::string& choice : item.choices) {
    characters.push_back(data::jinja::character_count(choice));
    bytes.push_back(choice.size());
  }
  const std::vector<std::size_t> ones(item.choices.size(), 1);
  const auto score = [&](const char* metric, const std::vector<std::size_t>& lengths) {
    const std::size_t chosen = likeliest(logprobs, lengths);
    return Score{metric, chosen == item.right ? 1.0 : 0.0, chosen};
  };
  return {score("acc", ones), score("acc_norm", characters), score("acc_bytes", bytes)};
}

// Null if the filter fails on this text: no text of a model may end an evaluation. A name that
// nothing defines is a mistake of the filter.
Json found_by(const TaskTemplate& filter, const Item& item, const std::string& text) {
  try {
    return filter.render(item.where, {{"output", text}});
  } catch (const data::jinja::TemplateError& error) {
    if (error.names_nothing()) throw;
    return nullptr;
  }
}

}  // namespace

std::vector<Score> scores_of(const Task& task, const Item& item, const ItemOutput& output) {
  if (task.output == OutputType::multiple_choice) return scores_of_choices(item, output.logprobs);
  if (task.output == OutputType::loglikelihood) {
    return {{"acc", output.greedy ? 1.0 : 0.0, output.greedy},
            {std::string(kPerplexity), output.logprobs.front()}};
  }
  std::vector<Score> scores;
  for (const auto& [name, filter] : task.filters) {
    const Json found = found_by(filter, item, output.text);
    scores.push_back({name, found == item.answer ? 1.0 : 0.0, found});
  }
  return scores;
}

void add_to(Json& line, const Task& task, const Item& item, const ItemOutput& output) {
  if (task.output == OutputType::generate_until) {
    line["text"] = output.text;
  } else {
    line["logprobs"] = output.logprobs;
  }
  for (const Score& score : scores_of(task, item, output)) {
    if (score.metric != kPerplexity) line[score.metric] = score.found;
  }
  if (task.output == OutputType::multiple_choice) line["right"] = item.right;
  if (task.output == OutputType::generate_until) line["right"] = item.answer;
}

ItemOutput output_of(const std::string& place, const Task& task, const Item& item,
                     const Json& line) {
  ItemOutput output;
  if (task.output == OutputType::generate_until) {
    get(place, line, "text", output.text);
    return output;
  }
  get(place, line, "logprobs", output.logprobs);
  check(output.logprobs.size() == item.choices.size(),
        "{}: 'logprobs' has {} numbers, and the item {} choices", place, output.logprobs.size(),
        item.choices.size());
  if (task.output == OutputType::loglikelihood) get(place, line, "acc", output.greedy);
  return output;
}

}  // namespace tapegrad::evaluation
