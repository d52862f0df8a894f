// How tokens are chosen: fields of requests, and the same options of other programs.

#include <vector>

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

const Args kDrawn = {"--max-new-tokens", "40", "--temperature", "1", "--seed", "3"};

Fields drawn(const Fields& more) {
  Fields body = {{"prompt", "once upon"}, {"max_tokens", 40}, {"seed", 3}, {"top_k", 200}};
  body.update(more);
  return body;
}

}  // namespace

TEST_CASE("a request's ways to choose tokens are those of sample-text", "[serve]") {
  struct Case {
    Fields fields;
    Args args;
  };
  const Case cases[] = {
      {{{"presence_penalty", 1.5}}, {"--presence-penalty", "1.5"}},
      {{{"frequency_penalty", 0.75}}, {"--frequency-penalty", "0.75"}},
      {{{"frequency_penalty", -2}, {"temperature", 0}}, {"--frequency-penalty=-2", "--greedy"}},
      {{{"typical_p", 0.4}}, {"--typical-p", "0.4"}},
      {{{"logit_bias", {{"32", 5}, {"65", -100}}}}, {"--logit-bias", "32=5", "65=-100"}},
      {{{"min_tokens", 40}, {"stop_token_ids", {32, 101}}, {"logit_bias", {{"67", 5}}}},
       {"--min-tokens", "40", "--stop-token-ids", "32", "101", "--logit-bias", "67=5"}},
      {{{"top_k", -1}}, {"--top-k", "0"}},
  };
  const std::string plain = server().text(drawn(Fields::object()));
  for (const Case& c : cases) {
    INFO(c.fields.dump());
    const std::string text = server().text(drawn(c.fields));
    CHECK(text == sampled("once upon", kDrawn + c.args));
    CHECK(text != plain);
  }
}

TEST_CASE("penalties are of the answer, whoever is beside it", "[serve]") {
  const Fields body = drawn({{"presence_penalty", 2}, {"frequency_penalty", 1}, {"n", 5}});
  const Fields together = server().ask_for("/v1/completions", body)["choices"];
  for (int i = 0; i < 5; ++i) {
    Fields alone = body;
    alone["n"] = 1;
    alone["seed"] = 3 + i;
    CHECK(together[static_cast<std::size_t>(i)]["text"] == server().text(alone));
  }
}

TEST_CASE("a text ends at a token of stop_token_ids, but not before min_tokens", "[serve]") {
  Fields body = drawn({{"temperature", 0}, {"max_tokens", 8}, {"logit_bias", {{"32", 100}}}});
  const auto choice = [&] { return server().ask_for("/v1/completions", body)["choices"][0]; };
  CHECK(choice()["finish_reason"] == "length");
  const Fields biased = {{"tokens", std::vector<int>(8, 32)}};
  CHECK(choice()["text"] == server().ask_for("/detokenize", biased)["content"]);
  body["stop_token_ids"] = {32};
  CHECK(choice()["finish_reason"] == "stop");
  CHECK(choice()["text"] == "");
  body["min_tokens"] = 5;
  body["logprobs"] = 0;
  CHECK(choice()["finish_reason"] == "stop");
  CHECK(choice()["logprobs"]["tokens"].size() == 5);
  body["ignore_eos"] = true;  // the tokenizer's ends alone
  CHECK(choice()["finish_reason"] == "stop");
}

TEST_CASE("a list of tokens of sample-text that is none is named", "[sampling]") {
  const auto refused = [](const Args& more, int code) {
    const Result r =
        run_program("sample-text", Args{"--model", tiny_chat_model().path, "--prompt", "a"} + more);
    CHECK(r.code == code);
    return r.err;
  };
  CHECK_THAT(refused({"--stop-token-ids", "x"}, 2),
             ContainsSubstring("--stop-token-ids: 'x' is not the number of a token"));
  CHECK_THAT(refused({"--logit-bias", "5"}, 2),
             ContainsSubstring("--logit-bias: '5' must be a token and a number"));
  CHECK_THAT(refused({"--logit-bias", "5=hot"}, 2),
             ContainsSubstring("--logit-bias: '5=hot' has no number behind ="));
  CHECK_THAT(refused({"--logit-bias", "5=1", "5=-3"}, 2),
             ContainsSubstring("--logit-bias: token 5 is there twice"));
  CHECK_THAT(refused({"--stop-token-ids", "404"}, 1),
             ContainsSubstring("--stop-token-ids: 404 is not a token of the model's 404"));
  CHECK_THAT(refused({"--logit-bias", "404=1"}, 1),
             ContainsSubstring("--logit-bias: 404 is not a token of the model's 404"));
  CHECK_THAT(refused({"--min-tokens", "500", "--max-new-tokens", "100"}, 2),
             ContainsSubstring("min_tokens must be at most max_new_tokens, 100, not 500"));
  CHECK_THAT(refused({"--presence-penalty", "3"}, 2), ContainsSubstring("--presence-penalty"));
}
