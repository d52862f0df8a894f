#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/evaluate/items/item_output.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::evaluation {

// Writes greedily behind the contexts of items, several texts side by side, each as if it were
// alone. A context that leaves no room for max_gen_toks tokens loses its beginning.
class GeneratedTexts {
 public:
  // `ends`: the tokens that end a text. The model, the task and the items must outlive it. Error if
  // the model sees too few tokens at once.
  GeneratedTexts(const run::TextModel& model, CacheType cache, const Task& task,
                 std::vector<const Item*> items, std::vector<data::Token> ends);

  // The text of the next item, in their order; none if a signal comes. Errors name the item.
  std::optional<ItemOutput> next();
  std::int64_t tokens() const {  // that were computed
    return generation_.cost().prompt_tokens + generation_.cost().tokens;
  }

 private:
  struct Writing {
    const Item* item;
    nn::Generation::Id id;
    Utf8Stream characters = {};
    std::string text = {};
    bool ended = false;
  };

  void add(const Item& item);
  void take(Writing& writing);

  const run::TextModel& model_;
  const Task& task_;
  std::vector<const Item*> items_;
  nn::GenerateOptions options_;
  nn::Generation generation_;
  std::size_t added_ = 0;
  std::deque<Writing> writing_;  // added, and not returned
};

// Error if a model that sees so many tokens at once has no room for a prompt of this task.
void check_room(const Task& task, std::int64_t block_size);

}  // namespace tapegrad::evaluation
