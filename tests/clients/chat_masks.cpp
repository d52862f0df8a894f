// usage: chat_masks MODEL CHATS
// Prints a line {"ids": […], "mask": […]} for each line of CHATS, a file of conversations, as
// --chat makes tokens of it with the tokenizer and the template of the folder MODEL; the mask is 1
// for tokens of answers. compare_chat_masks.py compares them with those of transformers.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tapegrad/base/error.h"
#include "tapegrad/data/chat/chat_tokens.h"
#include "tapegrad/data/chat/conversations.h"
#include "tapegrad/data/chat/tools/internal/tool_convention.h"
#include "tapegrad/run/models/chat_template_of.h"

int main(int argc, char** argv) {
  using namespace tapegrad;
  try {
    check(argc == 3, "usage: chat_masks MODEL CHATS");
    const data::Tokenizer tokenizer = data::Tokenizer::from_hf(argv[1]);
    const auto chat_template = run::chat_template_of(run::read_settings(argv[1]), tokenizer);
    check(chat_template.has_value(), "{} has no chat template", argv[1]);
    // transformers reads special tokens in messages.
    const auto reads_all = chat_template->with_special_in_messages(true);
    data::BadLines strict(true);
    for (const auto& chat : data::read_conversations(argv[2], {}, strict).conversations) {
      const data::ChatTokens tokens =
          data::chat_tokens(data::with_tools_for(reads_all, chat), reads_all, tokenizer);
      std::vector<int> mask(tokens.tokens.size());
      for (const data::TokenRange& answer : tokens.answers) {
        std::fill(mask.begin() + answer.begin, mask.begin() + answer.end, 1);
      }
      fmt::print("{{\"ids\": [{}], \"mask\": [{}]}}\n", fmt::join(tokens.tokens, ","),
                 fmt::join(mask, ","));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "chat_masks: {}\n", error.what());
    return 1;
  }
}
