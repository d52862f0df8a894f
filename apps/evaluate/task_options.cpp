#include "tapegrad/apps/evaluate/task_options.h"

#include <fmt/ranges.h>

#include "tapegrad/apps/evaluate/items/eval_task.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::evaluation {

void TaskOptions::add_to(cli::CommandLine& cli) {
  cli.group("Tasks");
  cli("task", names,
      fmt::format("questions, words to guess or texts to write, in place of PATH: a file that says "
                  "what an item's prompt and answers are, or {}",
                  fmt::join(task_names(), ", ")),
      {.value = "FILE|NAME"});
  cli.one_value_each("--task");
  cli("items", items, "items of the task: JSON lines; one file for each --task [the task's own]",
      {.value = "FILE"});
  cli.one_value_each("--items");
  cli("num_fewshot", num_fewshot, "examples before each question [as the task says]",
      {.least = 0, .most = 64});
  cli("fewshot_items", fewshot_items,
      "items of which some are the examples; one file for each --task [the task's own, or "
      "--items]",
      {.value = "FILE"});
  cli.one_value_each("--fewshot-items");
  cli("per_item", per_item,
      "write a JSON line for each item: log-likelihoods or text, chosen, right. The same call goes "
      "on with "
      "the file of one that was stopped",
      {.value = "FILE"});
  cli("overwrite", overwrite, "begin the file of --per-item anew");
  cli("apply_chat_template", apply_chat_template,
      "ask as a user in a chat, by the model's template, or by ChatML if it has none");
  cli("fewshot_as_multiturn", fewshot_as_multiturn,
      "with --apply-chat-template: each example is a question and an answer in the chat");
  cli("special_in_messages", special_in_messages,
      "let messages of --chat or --apply-chat-template spell special tokens such as <|im_end|>, "
      "which are text otherwise");
}

void TaskOptions::check_options(const cli::CommandLine& cli,
                                const std::vector<std::string>& paths) const {
  if (names.empty()) {
    for (const char* option : {"--items", "--fewshot-items", "--num-fewshot", "--per-item",
                               "--overwrite", "--apply-chat-template", "--fewshot-as-multiturn"}) {
      if (cli.given(option)) cli::usage_error("{} needs --task", option);
    }
    return;
  }
  if (!paths.empty()) cli::usage_error("give --task or texts, not both; repeat -m for more models");
  for (const char* option :
       {"--data", "--chat", "--loss", "--strict-data", "--field", "--encoding", "--separator",
        "--block-size", "--stride", "--isolate-documents", "--batch-size", "--beside-f32"}) {
    if (cli.given(option)) cli::usage_error("{} is for text, and --task has none", option);
  }
  if (special_in_messages && !apply_chat_template) {
    cli::usage_error("--special-in-messages needs --chat or --apply-chat-template");
  }
  if (fewshot_as_multiturn && !apply_chat_template) {
    cli::usage_error("--fewshot-as-multiturn needs --apply-chat-template");
  }
  for (const auto& [name, files] :
       {std::pair("--items", &items), std::pair("--fewshot-items", &fewshot_items)}) {
    if (!files->empty() && files->size() != names.size()) {
      cli::usage_error("{} is given {}, and --task {}: each task needs its own", name,
                       counted(std::ssize(*files), "time"), names.size());
    }
  }
}

}  // namespace tapegrad::evaluation
