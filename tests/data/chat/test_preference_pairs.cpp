// Pairs of answers, of which one is preferred.

#include "tapegrad/base/error.h"
#include "tapegrad/data/chat/preference_pairs.h"
#include "tapegrad/data/packed_batches.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

const Tokenizer& tokenizer() {
  constexpr std::string_view names[] = {"<|im_start|>", "<|im_end|>"};
  static const Tokenizer made =
      Tokenizer::train_bpe("the cat sat on the mat with the other cat", 258).with_special(names);
  return made;
}

std::string text_of(const Conversation& conversation) {
  std::string text;
  for (const Message& m : conversation.messages)
    text += m.role.substr(0, 1) + ":" + m.content + " ";
  return text;
}

std::string pair_text(std::string_view line) {
  LeftOutKeys left_out;
  const PreferencePair pair = pair_of_line(line, left_out);
  return text_of(pair.chosen) + "| " + text_of(pair.rejected);
}

std::string why_bad(std::string_view line) {
  LeftOutKeys left_out;
  try {
    pair_of_line(line, left_out);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Conversation talk(const std::vector<std::string>& turns) {
  Conversation made;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    made.messages.push_back({i % 2 == 0 ? "user" : "assistant", turns[i]});
  }
  return made;
}

PairTokens encoded(const std::vector<std::string>& chosen, const std::vector<std::string>& rejected,
                   std::int64_t block_size = 1000) {
  return pair_tokens(talk(chosen), talk(rejected), ChatTemplate::chatml(), tokenizer(), block_size);
}

// The texts of the answers that count.
std::vector<std::string> answers(const PairTokens& pair) {
  std::vector<std::string> texts;
  for (const TokenRange& answer : pair.tokens.answers) {
    const std::vector<Token> some(pair.tokens.tokens.begin() + answer.begin,
                                  pair.tokens.tokens.begin() + answer.end);
    texts.push_back(tokenizer().decode(some));
  }
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a pair's prompt stands apart, or begins both answers", "[preference_pairs]") {
  const std::string wanted = "u:hi a:yes | u:hi a:no ";
  CHECK(pair_text(R"({"prompt":"hi","chosen":"yes","rejected":"no"})") == wanted);
  const std::string user = R"({"role":"user","content":"hi"})";
  const std::string yes = R"({"role":"assistant","content":"yes"})";
  const std::string no = R"({"role":"assistant","content":"no"})";
  CHECK(pair_text(R"({"prompt":[)" + user + R"(],"chosen":[)" + yes + R"(],"rejected":[)" + no +
                  "]}") == wanted);
  const std::string whole =
      R"("chosen":[)" + user + "," + yes + R"(],"rejected":[)" + user + "," + no + "]}";
  CHECK(pair_text("{" + whole) == wanted);
  CHECK(pair_text(R"({"prompt":"hi",)" + whole) == wanted);  // as some data sets repeat it
  CHECK(pair_text(R"({"system":"be","prompt":"hi","chosen":"yes","rejected":"no"})") ==
        "s:be u:hi a:yes | s:be u:hi a:no ");
}

TEST_CASE("a line that is no pair says why", "[preference_pairs]") {
  CHECK_THAT(why_bad("nothing"), ContainsSubstring("no JSON"));
  CHECK_THAT(why_bad("[]"), ContainsSubstring("no JSON object"));
  CHECK_THAT(why_bad(R"({"prompt":"hi","chosen":"yes"})"), ContainsSubstring("has no 'rejected'"));
  CHECK_THAT(why_bad(R"({"prompt":"hi","completion":"yes"})"),
             ContainsSubstring("has no 'chosen'"));
  CHECK_THAT(why_bad(R"({"chosen":"yes","rejected":"no"})"),
             ContainsSubstring("there is no 'prompt'"));
  CHECK_THAT(why_bad(R"({"prompt":"hi","chosen":"yes","rejected":"yes"})"),
             ContainsSubstring("chosen and rejected are equal"));
  CHECK_THAT(why_bad(R"({"prompt":"hi","chosen":"yes","rejected":" "})"),
             ContainsSubstring("'rejected': an empty answer"));
  CHECK_THAT(why_bad(R"({"prompt":"hi","chosen":3,"rejected":"no"})"),
             ContainsSubstring("'chosen': 'completion' is neither"));
  CHECK_THAT(
      why_bad(R"({"chosen":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],)"
              R"("rejected":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
              R"({"role":"user","content":"c"},{"role":"assistant","content":"d"}]})"),
      ContainsSubstring("'chosen' has no answer behind the 2 messages that both begin with"));
}

TEST_CASE("what counts of a pair are the answers behind what both begin with",
          "[preference_pairs]") {
  CHECK(answers(encoded({"hi", "yes"}, {"hi", "no"})) == Texts{"yes<|im_end|>", "no<|im_end|>"});
  const PairTokens longer =
      encoded({"hi", "so", "more", "yes"}, {"hi", "so", "more", "no", "why", "it is"});
  CHECK(answers(longer) == Texts{"yes<|im_end|>", "no<|im_end|>", "it is<|im_end|>"});
  CHECK_FALSE(longer.cut);
  CHECK_THROWS_WITH(
      pair_tokens(talk({"hi", "yes"}), talk({"hi", "yes "}),
                  ChatTemplate("{% for m in messages %}<|im_start|>{% generation %}"
                               "{{ m.content | trim }}{% endgeneration %}{% endfor %}"),
                  tokenizer(), 100),
      ContainsSubstring("the template"));
}

TEST_CASE("a text that begins with its answer counts what follows its first token",
          "[preference_pairs]") {
  const ChatTemplate bare(
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
      "{% endgeneration %}{% endif %}{% endfor %}");
  const auto encode = [&](const char* chosen, const char* rejected) {
    return pair_tokens(talk({"", chosen}), talk({"", rejected}), bare, tokenizer(), 100);
  };
  CHECK(answers(encode("yz", "no")) == Texts{"z", "o"});
  CHECK_THROWS_WITH(encode("yz", "n"), ContainsSubstring("no token that follows another"));
}

TEST_CASE("a pair that does not fit loses turns, or does not fit at all", "[preference_pairs]") {
  const std::vector<std::string> chosen{"hi", "yes", "and", "this is a long answer to that"};
  const PairTokens whole = encoded(chosen, {"hi", "no"});
  const auto size = static_cast<std::int64_t>(whole.tokens.tokens.size());
  CHECK(whole.fits);
  CHECK_FALSE(encoded(chosen, {"hi", "no"}, size - 1).cut);
  const PairTokens cut = encoded(chosen, {"hi", "no"}, size - 2);
  CHECK(cut.fits);
  CHECK(cut.cut);
  CHECK(answers(cut) == Texts{"yes<|im_end|>", "no<|im_end|>"});
  CHECK(std::ssize(cut.tokens.tokens) <= size - 1);
  CHECK_FALSE(encoded(chosen, {"hi", "no"}, 12).fits);
}

TEST_CASE("both answers of a pair lie in one row, and do not see each other",
          "[preference_pairs]") {
  auto set = std::make_shared<ChatSet>();
  set->pairs = true;
  for (const std::string answer : {"yes", "so it is"}) {
    set->add(encoded({"hi", answer}, {"hi", "no"}).tokens);
  }
  set->files.push_back({2, 1});
  const std::int64_t T = 200;
  PackedBatches batches(set, {.batch_size = 4, .block_size = T, .shuffle = false}, Rng(1));
  CHECK(batches.counted(2) == std::vector<std::int64_t>{2, 2});  // pairs, of this pass and the next
  const Batch batch = batches.next();
  REQUIRE(batch.B == 1);
  std::vector<std::int32_t> starts;  // of documents that have targets
  for (std::int64_t t = 0; t < T; ++t) {
    const auto i = static_cast<std::size_t>(t);
    if (batch.targets[i] == kIgnoredTarget) continue;
    if (starts.empty() || starts.back() != batch.document_starts[i]) {
      starts.push_back(batch.document_starts[i]);
    }
  }
  REQUIRE(starts.size() == 4);
  // Each begins with the template's first token.
  for (const std::int32_t start : starts) {
    CHECK(batch.inputs[static_cast<std::size_t>(start)] == (*set)[0].tokens[0]);
  }
}

TEST_CASE("bad pairs of a file are counted and named", "[preference_pairs]") {
  const TempFolder folder;
  const auto path = folder.put("pairs.jsonl",
                               "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}\n"
                               "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"b\"}\n");
  BadLines bad;
  const ConversationFile file = read_conversations(path, {}, bad, LineForm::pair);
  CHECK(file.conversations.size() == 1);
  CHECK(file.rejected.size() == 1);
  REQUIRE(bad.count() == 1);
  CHECK_THAT(bad.first()[0],
             ContainsSubstring("pairs.jsonl', line 2: chosen and rejected are equal"));
  const auto none = folder.put("none.jsonl", "{}\n");
  CHECK_THROWS_WITH(read_conversations(none, {}, bad, LineForm::pair),
                    ContainsSubstring("no line is a pair of answers: line 1"));
}
