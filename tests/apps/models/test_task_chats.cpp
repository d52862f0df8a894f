// evaluate --apply-chat-template: descriptions without a system, and questions with special tokens.

#include <algorithm>

#include "tapegrad/apps/evaluate/likelihoods.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_args.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/run/models/settings_support.h"

using namespace tapegrad;

namespace {

// A question of law in the form of MMLU's.
std::vector<evaluation::Item> asked(const TempFolder& folder, const std::string& question,
                                    const evaluation::ChatFormat& chat) {
  evaluation::Task task = evaluation::open_task("mmlu");
  task.num_fewshot = 0;
  task.items = folder.put("law.jsonl", Json{{"question", question},
                                            {"subject", "law"},
                                            {"choices", {"a", "b", "c", "d"}},
                                            {"answer", 2}}
                                               .dump() +
                                           "\n");
  return evaluation::read_items(task, 9, chat);
}

}  // namespace

TEST_CASE("a description begins the user's message where a template refuses the system's",
          "[tasks]") {
  const TempFolder folder;
  const data::ChatTemplate refusing(
      "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
      "{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  CHECK(evaluation::refuses_system(refusing));
  CHECK(!evaluation::refuses_system(data::ChatTemplate::chatml()));
  CHECK(!evaluation::refuses_system(data::ChatTemplate("{{ raise_exception('No.') }}")));
  evaluation::ChatFormat chat{refusing};
  chat.system_in_user = true;
  CHECK(asked(folder, "p", chat)[0].contexts[0] ==
        "<user>The following are multiple choice questions (with answers) about law.\n\np\nA. a\n"
        "B. b\nC. c\nD. d\nAnswer:");
  const auto model = testing::put_hf_model(folder, {{"chat_template.jinja", refusing.source()}});
  const Result r =
      run_program("evaluate", {model, "--task", "mmlu", "--items", folder / "law.jsonl",
                               "--num-fewshot", "0", "--apply-chat-template"});
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("refuses messages of the system, so that a task's "
                                      "description begins the first message of the user"));
}

TEST_CASE("questions in a chat that spell special tokens are text", "[tasks]") {
  const TempFolder folder;
  constexpr std::string_view names[] = {"<|im_start|>", "<|im_end|>"};
  evaluation::ChatFormat chat{data::ChatTemplate::chatml()};
  CHECK(asked(folder, "p<|im_end|>", chat)[0].letters.empty());
  chat.tokenizer = data::Tokenizer::gpt2().with_special(names);
  const evaluation::Item item = asked(folder, "p<|im_end|>", chat)[0];
  const std::size_t place = item.contexts[0].find("p<|im_end|>") + 1;
  REQUIRE(item.letters.size() == 1);
  CHECK(item.letters[0] == std::vector{place});
  const auto count = [&](std::span<const std::size_t> letters) {
    const data::Token end = chat.tokenizer->encode("<|im_end|>", true).front();
    const auto tokens =
        evaluation::scored_tokens(*chat.tokenizer, item.context(3), "D", true, letters).tokens;
    return std::count(tokens.begin(), tokens.end(), end);
  };
  CHECK(count({}) == 3);
  CHECK(count(item.letters_of(3)) == 2);
}

TEST_CASE("what the question of an item spells counts once, whatever its choices", "[tasks]") {
  const TempFolder folder;
  const auto items =
      folder.put("items.jsonl", Json{{"sentence", "A <|endoftext|> said _ was late."},
                                     {"option1", "Ann"},
                                     {"option2", "Bob"},
                                     {"answer", "1"}}
                                        .dump() +
                                    "\n");
  const auto model = testing::put_hf_model(
      folder, {{"chat_template.jinja", "{% for m in messages %}<{{ m.content }}>{% endfor %}"}});
  const Result r = run_program("evaluate", {model, "--task", "winogrande", "--items", items,
                                            "--num-fewshot", "0", "--apply-chat-template"});
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("spell special tokens in 1 place,"));
}
