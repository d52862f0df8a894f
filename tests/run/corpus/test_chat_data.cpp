// Conversations of a run: from files to tokens, and to the loss of their answers.

#include <cmath>

#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/run/corpus/chat/chat_data.h"
#include "tapegrad/run/corpus/chat/chat_tokenizer.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

std::string line_of(int turns, int seed) {
  std::string text = "{\"messages\":[";
  for (int i = 0; i < turns; ++i) {
    const std::string number = std::to_string(seed * 7 + i);
    text += std::string(i > 0 ? "," : "") + R"({"role":"user","content":"say )" + number +
            R"("},{"role":"assistant","content":"it is )" + number + R"("})";
  }
  return text + "]}\n";
}

std::string chats(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line_of(1 + i % 3, i);
  return text;
}

run::Text read(const std::vector<std::string>& paths, bool strict = false) {
  return run::read_text({.paths = paths, .is_chat = true, .strict = strict});
}

const data::Tokenizer& tokenizer() {
  static const auto made = run::with_chatml_tokens(data::Tokenizer::train_bpe(
      "user say assistant it is 1 2 3 4 5 6 7 8 9 0 user say 12 assistant it is 12 say 31", 264));
  return made;
}

run::ChatEncoding encoding(std::int64_t block_size, data::ChatLoss loss = data::ChatLoss::answers) {
  return {data::ChatTemplate::chatml(), loss, block_size};
}

std::string texts_of(const data::ChatTokens& chat) {
  std::string text;
  for (const data::TokenRange& answer : chat.answers) {
    const std::span all(chat.tokens);
    text += "[" +
            tokenizer().decode(all.subspan(static_cast<std::size_t>(answer.begin),
                                           static_cast<std::size_t>(answer.end - answer.begin))) +
            "]";
  }
  return text;
}

}  // namespace

TEST_CASE("conversations become tokens, of which the answers are the model's", "[chat_data]") {
  const TempFolder folder;
  const run::Text text = read({folder.put("a.jsonl", line_of(2, 1))});
  CHECK(text.identity.documents == 1);
  const run::ChatData data = run::chat_data_of(text, tokenizer(), encoding(200));
  REQUIRE(data.val->size() == 1);
  const data::ChatTokens chat = (*data.val)[0];
  CHECK(tokenizer().decode(chat.tokens) ==
        "<|im_start|>user\nsay 7<|im_end|>\n<|im_start|>assistant\nit is 7<|im_end|>\n"
        "<|im_start|>user\nsay 8<|im_end|>\n<|im_start|>assistant\nit is 8<|im_end|>\n");
  CHECK(texts_of(chat) == "[it is 7<|im_end|>][it is 8<|im_end|>]");
  CHECK(data.ends.front() == tokenizer().encode("<|im_end|>", true).front());
  CHECK(data.prompts.at(0).question == "say 8");
  CHECK(data.prompts.at(0).wanted == "it is 8");
  CHECK(tokenizer().decode(data.prompts.at(0).tokens).ends_with("<|im_start|>assistant\n"));
}

TEST_CASE("a model learns its calls, and not their results, as serve shows them", "[chat_data]") {
  const TempFolder folder;
  const std::string line =
      R"({"tools":[{"name":"add"}],"messages":[{"role":"user","content":"say 7"},
          {"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function",
           "function":{"name":"add","arguments":"{\"a\":1}"}}]},
          {"role":"tool","tool_call_id":"x","content":"8"},
          {"role":"assistant","content":"it is 8"}]})";
  std::string lines = line;
  std::erase(lines, '\n');
  const run::Text text = read({folder.put("a.jsonl", lines + "\n" + lines + "\n")}, true);
  const std::string call =
      "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  const run::ChatData told = run::chat_data_of(text, tokenizer(), encoding(4000));
  CHECK(texts_of((*told.val)[0]) == "[" + call + "<|im_end|>][it is 8<|im_end|>]");
  const std::string shown = tokenizer().decode((*told.val)[0].tokens);
  CHECK_THAT(shown, ContainsSubstring(R"({"type": "function", "function": {"name": "add"}})"));
  CHECK_THAT(shown, ContainsSubstring("<tool_response>\n8\n</tool_response>"));
  CHECK(told.prompts.at(0).question == "8");
  CHECK(told.prompts.at(0).wanted == "it is 8");
  // A template that reads tools has them, and writes calls itself.
  const data::ChatTemplate reads(
      "{% if tools %}{{ tools | tojson }}<tool_call>{\"name\": \"arguments\"{% endif %}"
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
      "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
      "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  const run::ChatData given =
      run::chat_data_of(text, tokenizer(), {reads, data::ChatLoss::answers, 4000});
  CHECK(texts_of((*given.val)[0]) ==
        R"([<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call><|im_end|>])"
        "[it is 8<|im_end|>]");
  CHECK_THAT(tokenizer().decode((*given.val)[0].tokens),
             ContainsSubstring("<|im_start|>tool\n8<|im_end|>"));
  // A new tokenizer learns the words of tools and calls, too.
  const data::Tokenizer learnt = run::make_chat_tokenizer("bpe:320", text, 0.5, 1);
  CHECK(learnt.encode("arguments").size() < 9);
}

TEST_CASE("special tokens that messages spell are text, and are counted", "[chat_data]") {
  const TempFolder folder;
  const run::Text text = read({folder.put(
      "a.jsonl", R"({"prompt":"say <|im_end|>\n<|im_start|>","completion":"it is <|im_end|>"})"
                 "\n")});
  run::ChatEncoding how = encoding(400);
  const auto ends = [&] {
    const run::ChatData data = run::chat_data_of(text, tokenizer(), how);
    const auto tokens = (*data.val)[0].tokens;
    const data::Token end = tokenizer().encode("<|im_end|>", true).front();
    const auto& prompt = data.prompts.at(0).tokens;
    CHECK(data.spelled == (how.chat_template.special_in_messages() ? 0 : 3));
    return std::pair{std::count(tokens.begin(), tokens.end(), end),
                     std::count(prompt.begin(), prompt.end(), end)};
  };
  CHECK(ends() == std::pair<std::ptrdiff_t, std::ptrdiff_t>{2, 1});
  how.chat_template = how.chat_template.with_special_in_messages(true);
  CHECK(ends() == std::pair<std::ptrdiff_t, std::ptrdiff_t>{4, 2});
}

TEST_CASE("a random part of all files is for validation, or other files are", "[chat_data]") {
  const TempFolder folder;
  const std::string a = folder.put("a.jsonl", chats(30)), b = folder.put("b.jsonl", chats(10));
  const run::Text text = read({a + ":3", b});
  const run::ChatData data = run::chat_data_of(text, tokenizer(), encoding(200), 0.25, 1);
  CHECK(data.train->size() == 30);
  CHECK(data.val->size() == 10);
  CHECK(data.train->files[0].weight == 3);
  CHECK(data.val->files[0].weight == 1);
  const auto again = run::chat_data_of(text, tokenizer(), encoding(200), 0.25, 1);
  CHECK((*again.val)[0].tokens == (*data.val)[0].tokens);
  run::Text with_val = read({a});
  with_val.val = std::make_shared<const run::Text>(read({b}));
  const run::ChatData both = run::chat_data_of(with_val, tokenizer(), encoding(200), 0.25, 1);
  CHECK(both.train->size() == 30);
  CHECK(both.val->size() == 10);
}

TEST_CASE("what does not fit is cut at a turn, or left out, and counted", "[chat_data]") {
  const TempFolder folder;
  std::string text = line_of(3, 1) + line_of(1, 2);
  text += R"({"prompt":")" + std::string(300, 'x') + R"(","completion":"no"})" + "\n";
  const run::Text read_text = read({folder.put("a.jsonl", text)});
  const auto whole = run::chat_data_of(read_text, tokenizer(), encoding(1000));
  const auto full = whole.val->length(0);
  const auto cut = run::chat_data_of(read_text, tokenizer(), encoding(full - 10));
  CHECK(cut.cut == 1);
  CHECK(cut.too_long == 1);
  CHECK(texts_of((*cut.val)[0]) == "[it is 7<|im_end|>][it is 8<|im_end|>]");
}

TEST_CASE("a template that refuses a conversation makes a bad line of it", "[chat_data]") {
  const TempFolder folder;
  const std::string path = folder.put("a.jsonl", chats(3) + R"({"messages":[
)");
  const data::ChatTemplate picky(
      "{% for m in messages %}{% if m.content == 'say 14' %}{{ raise_exception('I say no') }}"
      "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  const auto data = run::chat_data_of(read({path}), tokenizer(), {picky, {}, 200});
  CHECK(data.bad_lines == 2);
  CHECK(data.val->size() == 2);
  const std::string good = folder.put("b.jsonl", chats(3));
  CHECK_THROWS_WITH(run::chat_data_of(read({good}, true), tokenizer(), {picky, {}, 200}),
                    ContainsSubstring("b.jsonl', line 3: ") && ContainsSubstring("I say no"));
}

TEST_CASE("a template that refuses to ask leaves a prompt out, and no conversation",
          "[chat_data]") {
  const TempFolder folder;
  const std::string path = folder.put("a.jsonl", chats(3));
  const data::ChatTemplate silent(
      "{% if add_generation_prompt and messages[-1].content == 'say 0' %}"
      "{{ raise_exception('ask me not') }}{% endif %}"
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}"
      "{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  const auto data = run::chat_data_of(read({path}), tokenizer(), {silent, {}, 200});
  CHECK(data.val->size() == 3);
  CHECK(data.bad_lines == 0);
  REQUIRE(data.prompts.size() == 2);
  CHECK(data.prompts[0].wanted == "it is 8");
}

TEST_CASE("a tokenizer gets ChatML's tokens once, and ends texts there", "[chat_data]") {
  const auto plain = data::Tokenizer::train_bpe("the cat sat on the mat with the cat", 260);
  const auto more = run::with_chatml_tokens(plain);
  CHECK(more.vocab_size() == plain.vocab_size() + 2);
  CHECK(run::with_chatml_tokens(more).vocab_size() == more.vocab_size());
  const std::string text = "<|im_start|>the cat<|im_end|>";
  CHECK(more.encode(text, true).front() == plain.vocab_size());
  CHECK(more.encode(text, false) == plain.encode(text));
  CHECK(more.encode("the cat sat") == plain.encode("the cat sat"));
  CHECK(more.ends() == std::vector<data::Token>{260 + 1, plain.ends()[0]});
  CHECK_THROWS_WITH(run::with_chatml_tokens(data::Tokenizer::of_characters("abc")),
                    ContainsSubstring("not one of characters"));
}

TEST_CASE("the loss of packed conversations is that of each alone", "[chat_data]") {
  const TempFolder folder;
  const run::Text text = read({folder.put("a.jsonl", chats(12))});
  Rng rng(1);
  const nn::Params params(rng);
  const auto positions = GENERATE(nn::Positions::learned, nn::Positions::rotary);
  const nn::Decoder gpt = nn::make_decoder(params,
                                           {.vocab_size = tokenizer().vocab_size(),
                                            .block_size = 128,
                                            .n_layer = 2,
                                            .n_head = 2,
                                            .n_embd = 16,
                                            .positions = positions},
                                           {.gpt2_weights = &rng});
  for (const data::ChatLoss loss :
       {data::ChatLoss::answers, data::ChatLoss::all, data::ChatLoss::last}) {
    const auto data = run::chat_data_of(text, tokenizer(), encoding(128, loss));
    const auto packed = run::loss_of_conversations(gpt, tokenizer(), data.val, loss,
                                                   {.batch_size = 2, .block_size = 128});
    double sum = 0;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < data.val->size(); ++i) {
      const data::ChatTokens chat = (*data.val)[i];
      auto alone = std::make_shared<data::ChatSet>();
      alone->add(chat);
      alone->files = {{1, 1}};
      // A row as long as the conversation: nothing is packed.
      const auto one =
          run::loss_of_conversations(gpt, tokenizer(), alone, loss,
                                     {.batch_size = 1, .block_size = std::ssize(chat.tokens) - 1});
      sum += one->loss * static_cast<double>(one->tokens);
      count += one->tokens;
    }
    CHECK(packed->tokens == count);
    CHECK(packed->loss == Approx(sum / static_cast<double>(count)).epsilon(1e-6));
    CHECK(packed->tokens == data.val->counted(loss));
  }
}
