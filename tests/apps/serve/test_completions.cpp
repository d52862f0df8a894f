// POST /v1/completions, as clients see it: what is made is what `sample-text` makes.

#include <random>
#include <thread>

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

}  // namespace

TEST_CASE("a completion is the text that sample-text makes with the same options", "[serve]") {
  const Fields body = {{"model", "tiny-chat"}, {"prompt", "once upon"}, {"max_tokens", 40},
                       {"temperature", 0.9},   {"top_p", 0.95},         {"seed", 7}};
  const Fields answer = server().ask_for("/v1/completions", body);
  CHECK(answer["object"] == "text_completion");
  CHECK(answer["model"] == "tiny-chat");
  CHECK(answer["id"].get<std::string>().starts_with("cmpl-"));
  CHECK(answer["seed"] == 7);
  CHECK(answer["choices"][0]["text"] ==
        sampled("once upon", {"--max-new-tokens", "40", "--temperature", "0.9", "--top-p", "0.95",
                              "--seed", "7", "--top-k", "404"}));
  CHECK(answer["choices"][0]["logprobs"].is_null());
  CHECK(answer["usage"]["completion_tokens"].get<int>() <= 40);
  CHECK(answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"].get<int>() +
                                               answer["usage"]["completion_tokens"].get<int>());
  // Greedy, and with what is no token of OpenAI's interface.
  CHECK(server().text({{"prompt", "once"}, {"temperature", 0}, {"max_tokens", 9}}) ==
        sampled("once", {"--greedy", "--max-new-tokens", "9"}));
  CHECK(server().text({{"prompt", "once"},
                       {"top_k", 5},
                       {"min_p", 0.1},
                       {"seed", 3},
                       {"repetition_penalty", 1.3},
                       {"ignore_eos", true},
                       {"max_tokens", 30}}) ==
        sampled("once", {"--top-k", "5", "--min-p", "0.1", "--seed", "3", "--repetition-penalty",
                         "1.3", "--temperature", "1", "--ignore-eos", "--max-new-tokens", "30"}));
}

TEST_CASE("texts of a request have seeds that follow each other", "[serve]") {
  const Fields answer = server().ask_for(
      "/v1/completions",
      {{"prompt", {"once", "and"}}, {"n", 2}, {"seed", 11}, {"max_tokens", 12}, {"top_k", 50}});
  REQUIRE(answer["choices"].size() == 4);
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(answer["choices"][i]["index"] == i);
    CHECK(answer["choices"][i]["text"] ==
          sampled(i < 2 ? "once" : "and", {"--seed", std::to_string(11 + i), "--max-new-tokens",
                                           "12", "--temperature", "1", "--top-k", "50"}));
  }
  // Without a seed, the answer names one that gives the same text.
  const Fields any = server().ask_for("/v1/completions", {{"prompt", "once"}, {"max_tokens", 12}});
  CHECK(server().text({{"prompt", "once"}, {"max_tokens", 12}, {"seed", any["seed"]}}) ==
        any["choices"][0]["text"]);
  const Fields below = server().ask_for("/v1/completions", {{"prompt", "once"}, {"seed", -5}});
  CHECK(below["seed"] == -5);
}

TEST_CASE("a penalty of nearly 0 is refused", "[serve]") {
  const Reply reply = server().send(
      "/v1/completions", {{"prompt", "once"}, {"max_tokens", 8}, {"repetition_penalty", 1e-300}});
  CHECK(reply.status == 400);
  CHECK_THAT(reply.body, ContainsSubstring("'repetition_penalty' must be from 0.01 to 100"));
}

TEST_CASE("prompts may be tokens", "[serve]") {
  const auto tokens = server().ask_for("/tokenize", {{"content", "once upon"}})["tokens"];
  const Fields options = {{"max_tokens", 10}, {"seed", 1}};
  const auto with = [&](const Fields& prompt) {
    Fields body = options;
    body["prompt"] = prompt;
    return server().text(body);
  };
  CHECK(with(tokens) == with("once upon"));
  CHECK(with({tokens}) == with("once upon"));
}

TEST_CASE("a text ends before a stop, wherever tokens begin", "[serve]") {
  const Fields body = {{"prompt", "once upon"}, {"max_tokens", 60}, {"seed", 5}, {"top_k", 60}};
  const std::string whole = server().text(body);
  REQUIRE(whole.size() > 30);
  // A piece of the middle that does not occur earlier.
  std::string stop = whole.substr(20, 4);
  Fields stopped = body;
  stopped["stop"] = stop;
  for (const Fields& stops : {Fields(stop), Fields({"never there", stop})}) {
    stopped["stop"] = stops;
    const Fields choice = server().ask_for("/v1/completions", stopped)["choices"][0];
    CHECK(choice["text"] == whole.substr(0, whole.find(stop)));
    CHECK(choice["finish_reason"] == "stop");
    std::string streamed;
    for (const Fields& event : server().events("/v1/completions", stopped)) {
      streamed += event["choices"][0]["text"].get<std::string>();
    }
    CHECK(streamed == choice["text"]);
  }
}

TEST_CASE("a stream has the same text in whole characters, and its end", "[serve]") {
  const Fields body = {{"prompt", "once"}, {"max_tokens", 50}, {"seed", 2},
                       {"logprobs", 2},    {"n", 2},           {"echo", true}};
  const Fields whole = server().ask_for("/v1/completions", body);
  Fields with_usage = body;
  with_usage["stream_options"] = {{"include_usage", true}};
  const auto events = server().events("/v1/completions", with_usage);
  std::vector<std::string> texts(2);
  std::vector<Fields> tokens(2, Fields::array()), finish(2);
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    CHECK(events[i]["object"] == "text_completion");
    CHECK(events[i]["usage"].is_null());
    const Fields& choice = events[i]["choices"][0];
    const auto index = choice["index"].get<std::size_t>();
    texts[index] += choice["text"].get<std::string>();
    for (const auto& token : choice["logprobs"]["tokens"]) tokens[index].push_back(token);
    if (!choice["finish_reason"].is_null()) finish[index] = choice["finish_reason"];
  }
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(texts[i] == whole["choices"][i]["text"]);
    CHECK(tokens[i] == whole["choices"][i]["logprobs"]["tokens"]);
    CHECK(finish[i] == whole["choices"][i]["finish_reason"]);
  }
  CHECK(events.back()["choices"].empty());
  CHECK(events.back()["usage"] == whole["usage"]);
}

TEST_CASE("log probabilities of prompt and answer are those of the model", "[serve]") {
  const Fields answer = server().ask_for("/v1/completions", {{"prompt", "once upon a time"},
                                                             {"max_tokens", 8},
                                                             {"temperature", 0},
                                                             {"logprobs", 3},
                                                             {"echo", true}});
  const Fields& choice = answer["choices"][0];
  const std::string text = choice["text"].get<std::string>();
  CHECK(text.starts_with("once upon a time"));
  const Fields& log = choice["logprobs"];
  const std::size_t prompt = answer["usage"]["prompt_tokens"], count = log["tokens"].size();
  REQUIRE(count == prompt + answer["usage"]["completion_tokens"].get<std::size_t>());
  CHECK(log["token_logprobs"][0].is_null());
  CHECK(log["top_logprobs"][0].is_null());
  CHECK(log["text_offset"][0] == 0);
  for (std::size_t i = 1; i < count; ++i) {
    CAPTURE(i);
    const double logprob = log["token_logprobs"][i];
    const Fields& top = log["top_logprobs"][i];
    CHECK(logprob < 0);
    CHECK(top.size() >= 2);  // several tokens may have one text
    CHECK(top.size() <= 4);
    CHECK(top[log["tokens"][i].get<std::string>()] >= logprob);
    CHECK(log["text_offset"][i] >= log["text_offset"][i - 1]);
    // The tokens that were chosen are the likeliest ones.
    if (i >= prompt) {
      for (const auto& [token, other] : top.items()) CHECK(other <= logprob);
    }
  }
  // The prompt's scores are those that its tokens have as an answer: each is asked for with a bias.
  const auto tokens = server().ask_for("/tokenize", {{"content", "once upon a time"}})["tokens"];
  REQUIRE(tokens.size() == prompt);
  for (std::size_t i = 1; i < prompt; ++i) {
    const Fields before(std::vector<Fields>(tokens.begin(), tokens.begin() + static_cast<long>(i)));
    const Fields one = server().ask_for(
        "/v1/completions", {{"prompt", before},
                            {"max_tokens", 1},
                            {"temperature", 0},
                            {"logprobs", 0},
                            {"logit_bias", {{std::to_string(tokens[i].get<int>()), 100}}}});
    CHECK_THAT(one["choices"][0]["logprobs"]["token_logprobs"][0].get<double>(),
               Catch::Matchers::WithinAbs(log["token_logprobs"][i].get<double>(), 1e-4));
  }
  // A prompt alone can be scored, as lm-eval does it.
  const Fields scored = server().ask_for(
      "/v1/completions", {{"prompt", tokens}, {"max_tokens", 0}, {"logprobs", 1}, {"echo", true}});
  const Fields& scores = scored["choices"][0]["logprobs"]["token_logprobs"];
  REQUIRE(scores.size() == prompt);
  for (std::size_t i = 1; i < prompt; ++i) CHECK(scores[i] == log["token_logprobs"][i]);
  CHECK(scored["choices"][0]["text"] == "once upon a time");
}

TEST_CASE("64 requests that come and go at random get the texts that they get alone", "[serve]") {
  const RunningServer busy({"--parallel", "5", "--max-waiting", "100"});
  struct Ask {
    Fields body;
    std::string alone, together;
    bool leaves = false;
  };
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<Ask> asks(64);
  const std::vector<std::string> prompts = {"once upon a time", "x", "the king and the queen",
                                            std::string(90, 'a')};
  for (int i = 0; i < 64; ++i) {
    asks[static_cast<std::size_t>(i)].body = {
        {"prompt", prompts[static_cast<std::size_t>(below(4))]},
        {"seed", i},
        {"max_tokens", 1 + below(60)},
        {"top_k", 30 + below(40)},
        {"temperature", below(2) == 0 ? 0.8 : 1.2}};
    asks[static_cast<std::size_t>(i)].leaves = below(5) == 0;
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    threads.emplace_back([&, i, pause = below(300)] {
      Ask& ask = asks[i];
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
      const std::string body = ask.body.dump();
      Browser browser(busy.port);
      browser.send(
          "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
          "Content-Type: application/json\r\nContent-Length: " +
          std::to_string(body.size()) + "\r\n\r\n" + body);
      if (ask.leaves) {
        browser.receive(std::chrono::milliseconds(pause / 20));
        return;
      }
      const Reply reply = reply_in(browser.rest(std::chrono::seconds(120)));
      if (reply.status == 200) {
        ask.together = Fields::parse(reply.body)["choices"][0]["text"].get<std::string>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ask& ask : asks) {
    if (ask.leaves) continue;
    const std::string alone = sampled(
        ask.body["prompt"],
        {"--seed", ask.body["seed"].dump(), "--max-new-tokens", ask.body["max_tokens"].dump(),
         "--top-k", ask.body["top_k"].dump(), "--temperature", ask.body["temperature"].dump()});
    INFO(ask.body.dump());
    CHECK(ask.together == alone);
  }
  CHECK(busy.comes_to("tapegrad_texts_running", 0));
  CHECK(busy.comes_to("tapegrad_cache_positions", 0));
}
