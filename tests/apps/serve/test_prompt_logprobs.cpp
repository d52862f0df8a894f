// `prompt_logprobs` of requests: vLLM's list of a prompt's tokens and of the likeliest in their
// places, which are those of the model.

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tapegrad/nn/generation/log_probabilities.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/serve/running_server.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

// The list is that of a prompt of these tokens under the model.
void check_scores(const Fields& list, const nn::Tokens& prompt, std::size_t count) {
  static const run::TextModel model = run::load(tiny_chat_model().path);
  REQUIRE(list.size() == prompt.size());
  CHECK(list[0].is_null());
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    CAPTURE(i);
    const auto length = static_cast<std::int64_t>(i);
    const Tensor logits = model.gpt.last_logits(
        Tensor::from(nn::Tokens(prompt.begin(), prompt.begin() + length), {1, length}));
    const nn::LogProbabilities expected(logits.values<float>());
    CHECK(list[i].contains(std::to_string(prompt[i])));
    CHECK((list[i].size() == count || list[i].size() == count + 1));
    std::vector<std::int64_t> ranks;
    for (const auto& [name, told] : list[i].items()) {
      const std::int32_t token = std::stoi(name);
      CHECK(told["logprob"].get<double>() == Approx(expected[token]).margin(1e-4));
      const auto likelier = [&](double by) {  // tokens: another load of a model may round otherwise
        return std::ranges::count_if(logits.values<float>(), [&](float logit) {
          return static_cast<double>(logit) > static_cast<double>(logits.at(token)) + by;
        });
      };
      CHECK(told["rank"] > likelier(1e-4));
      CHECK(told["rank"] <= likelier(-1e-4));
      const std::string text = told["decoded_token"];
      if (!text.starts_with("bytes:")) CHECK(text == model.tokenizer.token_bytes(token));
      ranks.push_back(told["rank"]);
    }
    std::ranges::sort(ranks);
    for (std::size_t rank = 1; rank <= count; ++rank) {
      CHECK(ranks[rank - 1] == static_cast<std::int64_t>(rank));
    }
  }
}

nn::Tokens tokens_of(const std::string& text) {
  return server().ask_for("/tokenize", {{"content", text}})["tokens"];
}

Fields with(Fields body, const Fields& more) {
  body.update(more);
  return body;
}

}  // namespace

TEST_CASE("prompt_logprobs has the model's log probabilities and ranks, and changes no text",
          "[serve]") {
  const std::string text = "once upon a time there was a king";
  const Fields body = {{"prompt", text}, {"max_tokens", 12}, {"seed", 4}, {"logprobs", 2}};
  const Fields plain = server().ask_for("/v1/completions", body)["choices"][0];
  CHECK(!plain.contains("prompt_logprobs"));
  for (const std::size_t count : {0U, 5U, 20U}) {
    const Fields choice =
        server().ask_for("/v1/completions", with(body, {{"prompt_logprobs", count}}))["choices"][0];
    check_scores(choice["prompt_logprobs"], tokens_of(text), count);
    CHECK(choice["text"] == plain["text"]);
    CHECK(choice["logprobs"] == plain["logprobs"]);
  }
  // An echo has as many as it asks for itself.
  for (const int count : {0, 7}) {
    const Fields echo = with(body, {{"echo", true}});
    const Fields both =
        server().ask_for("/v1/completions", with(echo, {{"prompt_logprobs", count}}))["choices"][0];
    CHECK(both["logprobs"] == server().ask_for("/v1/completions", echo)["choices"][0]["logprobs"]);
    check_scores(both["prompt_logprobs"], tokens_of(text), static_cast<std::size_t>(count));
  }
  const Fields unscored =
      server().ask_for("/v1/completions",
                       with(body, {{"echo", true}, {"logprobs", nullptr}, {"prompt_logprobs", 1}}));
  CHECK(unscored["choices"][0]["logprobs"].is_null());
  CHECK(unscored["choices"][0]["text"] == text + plain["text"].get<std::string>());
}

TEST_CASE("each choice has the prompt_logprobs of its prompt", "[serve]") {
  const Fields answer = server().ask_for(
      "/v1/completions",
      {{"prompt", {"once upon", "x"}}, {"n", 3}, {"max_tokens", 0}, {"prompt_logprobs", 1}});
  REQUIRE(answer["choices"].size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    const Fields& choice = answer["choices"][i];
    CHECK(choice["text"] == "");
    CHECK(choice["finish_reason"] == "length");
    check_scores(choice["prompt_logprobs"], tokens_of(i < 3 ? "once upon" : "x"), 1);
  }
}

TEST_CASE("prompt_logprobs of a chat are those of the template's text", "[serve]") {
  const Fields body = {{"messages", {{{"role", "user"}, {"content", "Who is it?"}}}},
                       {"max_tokens", 8},
                       {"n", 2},
                       {"seed", 5}};
  const Fields plain = server().ask_for("/v1/chat/completions", body);
  const Fields answer =
      server().ask_for("/v1/chat/completions", with(body, {{"prompt_logprobs", 3}}));
  CHECK(answer["choices"] == plain["choices"]);
  CHECK(!plain.contains("prompt_logprobs"));
  check_scores(answer["prompt_logprobs"], tokens_of("[user] Who is it?\n[assistant]"), 3);
}

// The answer has them once, however many texts it has.
TEST_CASE("prompt_logprobs of a chat are counted once", "[serve]") {
  const Fields body = {{"messages", {{{"role", "user"}, {"content", std::string(450, 'a')}}}},
                       {"max_tokens", 1},
                       {"n", 128},
                       {"prompt_logprobs", 20}};
  CHECK(server().ask_for("/v1/chat/completions", body)["prompt_logprobs"].size() > 100);
}

TEST_CASE("prompt_logprobs that make no sense are refused by name", "[serve]") {
  const std::string prompt(500, 'a');
  for (const auto& [more, why] :
       {std::pair{Fields{{"prompt_logprobs", 21}}, "must be from 0 to 20"},
        {Fields{{"prompt_logprobs", -1}}, "must be from 0 to 20"},
        {Fields{{"prompt_logprobs", true}}, "must be a whole number"},
        {Fields{{"prompt_logprobs", 1}, {"stream", true}}, "are no part of a stream"},
        {Fields{{"prompt_logprobs", 20}, {"n", 128}}, "more than 1000000 log probabilities"}}) {
    INFO(more.dump());
    const Reply reply =
        server().send("/v1/completions", with({{"prompt", prompt}, {"max_tokens", 1}}, more));
    INFO(reply.body);
    CHECK(reply.status == 400);
    const Fields error = Fields::parse(reply.body)["error"];
    CHECK(error["param"] == "prompt_logprobs");
    CHECK_THAT(error["message"].get<std::string>(), ContainsSubstring(why));
  }
  const Reply chat =
      server().send("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                                             {"stream", true},
                                             {"prompt_logprobs", 1}});
  CHECK(chat.status == 400);
  CHECK_THAT(chat.body, ContainsSubstring("are no part of a stream"));
}

TEST_CASE("prompt_logprobs are the same behind a cached prompt, in company and with speculation",
          "[serve]") {
  const TinyRun run(5, {"--n-embd", "64", "--block-size", "128"});
  const std::string text = "the cat sat on the cat sat on the mat. the cat sat on";
  const Fields scored = {{"prompt", text}, {"max_tokens", 20},     {"seed", 4},
                         {"n", 2},         {"prompt_logprobs", 4}, {"logprobs", 0}};
  const Args packed = {"--weights", "q8_0"};
  const auto choices = [&](const RunningServer& at, const Fields& more) {
    return at.ask_for("/v1/completions", with(scored, more))["choices"];
  };
  const RunningServer alone(packed, run.run);
  const Fields expected = choices(alone, Fields::object());
  CHECK(expected[0]["prompt_logprobs"].size() == text.size());
  // The second text of the prompt goes on behind what the first one has read.
  CHECK(alone.metric("tapegrad_prompt_tokens_reused_total") > 0);

  for (const Args& how : {Args{}, Args{"--lookup", "6"}}) {
    const RunningServer busy(packed + how + Args{"--parallel", "4"}, run.run);
    const Fields plain = choices(busy, {{"prompt_logprobs", nullptr}});
    CHECK(choices(busy, Fields::object()) == expected);  // the prompt's keys are there
    for (std::size_t i = 0; i < 2; ++i) CHECK(plain[i]["text"] == expected[i]["text"]);
    std::vector<Reply> replies(6);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < replies.size(); ++i) {
      threads.emplace_back([&, i] {
        const Fields other = {{"seed", i}, {"prompt_logprobs", nullptr}};
        replies[i] = busy.send("/v1/completions", i % 2 == 0 ? scored : with(scored, other));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < replies.size(); i += 2) {
      CHECK(Fields::parse(replies[i].body)["choices"] == expected);
    }
  }
}
