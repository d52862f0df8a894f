#include "tapegrad/apps/serve/served_model.h"

#include <algorithm>
#include <utility>

#include "tapegrad/apps/serve/text_job.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad::serve {
namespace {

constexpr std::size_t kMostSchemaTerms = 100'000;

std::size_t longest_token(const data::Tokenizer& tokenizer) {
  std::size_t longest = 1;
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    longest = std::max(longest, tokenizer.token_bytes(token).size());
  }
  return longest;
}

}  // namespace

run::JsonMasks masks_of(const data::Tokenizer& tokenizer) {
  return run::JsonMasks(tokenizer, kMostSchemaTerms);
}

ServedModel served_model(const run::TextModel& model, std::vector<NamedModel> named,
                         std::int64_t context, run::JsonMasks& json_masks,
                         const ServedOptions& options) {
  auto chat = run::chat_template_or_chatml(model.settings, model.tokenizer);
  std::vector<data::Token> answer_ends;
  if (chat) {
    chat = chat->with_special_in_messages(options.special_in_messages);
    answer_ends = run::answer_ends(*chat, model.tokenizer);
  }
  return {.model = model,
          .named = std::move(named),
          .context = context,
          .created = seconds_since_1970(),
          .chat = std::move(chat),
          .answer_ends = std::move(answer_ends),
          .json_masks = json_masks,
          .longest_token = longest_token(model.tokenizer),
          .reasoning_budget = options.reasoning_budget,
          .speculation = options.speculation,
          .draft = options.draft};
}

}  // namespace tapegrad::serve
