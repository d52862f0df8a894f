#include "tapegrad/apps/evaluate/generated_texts.h"

#include <algorithm>

#include "tapegrad/apps/evaluate/likelihoods.h"
#include "tapegrad/base/interrupt.h"

namespace tapegrad::evaluation {

GeneratedTexts::GeneratedTexts(const run::TextModel& model, CacheType cache, const Task& task,
                               std::vector<const Item*> items, std::vector<data::Token> ends)
    : model_(model),
      task_(task),
      items_(std::move(items)),
      options_{.max_new_tokens = task.max_gen_toks, .greedy = true, .stop_tokens = std::move(ends)},
      generation_(model.gpt, {.cache = cache}) {
  check_room(task, model.gpt.config.block_size);
}

void check_room(const Task& task, std::int64_t block_size) {
  check(task.output != OutputType::generate_until || task.max_gen_toks < block_size,
        "{}: 'max_gen_toks' is {}, and the model sees {} tokens at once: too few for a prompt",
        task.place, task.max_gen_toks, block_size);
}

void GeneratedTexts::add(const Item& item) try {
  std::vector<data::Token> prompt =
      context_tokens(model_.tokenizer, item.contexts.front(), item.chat, item.letters_of(0));
  const std::int64_t most = model_.gpt.config.block_size - task_.max_gen_toks;
  prompt.erase(prompt.begin(), prompt.end() - std::min(most, std::ssize(prompt)));
  writing_.push_back({&item, generation_.add(std::move(prompt), options_, Rng(0))});
} catch (const Error& error) {
  fail("{}: {}", item.where, error.what());
}

void GeneratedTexts::take(Writing& writing) try {
  const nn::Generation::Taken taken = generation_.take(writing.id);
  for (const nn::NewToken& t : taken.tokens) {
    writing.text += writing.characters.push(model_.tokenizer.token_bytes(t.token));
  }
  if (taken.end) writing.text += writing.characters.flush();
  std::size_t end = writing.text.npos;
  for (const std::string& stop : task_.until) end = std::min(end, writing.text.find(stop));
  if (end != writing.text.npos) writing.text.resize(end);
  writing.ended = taken.end || end != writing.text.npos;
  if (writing.ended) generation_.remove(writing.id);
} catch (const Error& error) {
  fail("{}: {}", writing.item->where, error.what());
}

std::optional<ItemOutput> GeneratedTexts::next() {
  while (writing_.empty() || !writing_.front().ended) {
    if (interrupted()) return std::nullopt;
    while (added_ < items_.size() && generation_.sequences() < generation_.limits().max_sequences) {
      add(*items_[added_++]);
    }
    generation_.step();
    for (Writing& writing : writing_) {
      if (!writing.ended) take(writing);
    }
  }
  ItemOutput output{.text = std::move(writing_.front().text)};
  writing_.pop_front();
  return output;
}

}  // namespace tapegrad::evaluation
