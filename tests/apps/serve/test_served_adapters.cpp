// One model with several adapters, which requests choose by name.

#include <random>
#include <thread>

#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/serve/running_server.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/places.h"

using namespace tapegrad;
using tapegrad::testing::normal;
namespace fs = std::filesystem;

namespace {

// The same random adapters as a folder of PEFT's and as a file of llama.cpp's.
void make_adapters(const fs::path& peft, const fs::path& gguf, std::uint64_t seed,
                   const std::vector<std::pair<std::string, Shape>>& layers) {
  const nn::DecoderConfig config = run::open_model(tiny_chat_model().path).config;
  constexpr std::int64_t kRank = 3;
  Rng rng(seed);
  std::map<std::string, Tensor> tensors;
  std::vector<std::string> targets;
  for (const auto& [layer, shape] : layers) {
    targets.push_back("*." + layer);
    for (int block = 0; block < config.n_layer; ++block) {
      const std::string name = "layers." + std::to_string(block) + "." + layer;
      tensors.emplace(name + ".lora_A.weight", normal(rng, {kRank, shape[1]}, DType::f32, 0.3));
      tensors.emplace(name + ".lora_B.weight", normal(rng, {shape[0], kRank}, DType::f32, 0.3));
    }
  }
  const run::Adapter adapter{{.rank = kRank, .alpha = 6, .targets = targets},
                             memory_source(tensors, "made")};
  run::write_peft(peft, adapter, config, "tiny-chat");
  run::write_gguf_adapter(gguf, adapter, config);
}

struct ServedAdapters {
  TempFolder folder;
  fs::path poet = folder / "poet", clerk = folder / "clerk.gguf";
  ServedAdapters() {
    fs::create_directories(folder / "other");
    make_adapters(poet, folder / "poet.gguf", 1,
                  {{"self_attn.q_proj", {16, 16}}, {"self_attn.v_proj", {8, 16}}});
    make_adapters(folder / "other", clerk, 2,
                  {{"mlp.down_proj", {16, 40}}, {"self_attn.k_proj", {8, 16}}});
  }
  Args options() const {
    return {"--lora", "poet=" + poet.string(), "--lora", "clerk=" + clerk.string()};
  }
  // The arguments of sample-text for the model of this name.
  Args of(const std::string& name) const {
    if (name == "tiny-chat") return {};
    return {"--adapter", name == "poet" ? poet.string() : clerk.string()};
  }
};

const ServedAdapters& adapters() {
  static const ServedAdapters made;
  return made;
}

}  // namespace

TEST_CASE("a request chooses an adapter by the name of its model", "[serve]") {
  const RunningServer server(adapters().options());
  const auto text = [&](const std::string& name) {
    const Fields answer = server.ask_for(
        "/v1/completions",
        {{"model", name}, {"prompt", "once upon"}, {"max_tokens", 30}, {"seed", 3}, {"top_k", 50}});
    CHECK(answer["model"] == name);
    const std::string made = answer["choices"][0]["text"];
    CHECK(made == sampled("once upon", Args{"--max-new-tokens", "30", "--seed", "3", "--top-k",
                                            "50", "--temperature", "1"} +
                                           adapters().of(name)));
    return made;
  };
  const std::string base = text("tiny-chat"), poet = text("poet"), clerk = text("clerk");
  CHECK((base != poet && poet != clerk && clerk != base));
  const Fields models = Fields::parse(get(server.port, "/v1/models").body)["data"];
  REQUIRE(models.size() == 3);
  CHECK((models[0]["id"] == "tiny-chat" && models[0]["parent"].is_null()));
  CHECK((models[1]["id"] == "poet" && models[1]["parent"] == "tiny-chat"));
  CHECK(Fields::parse(get(server.port, "/v1/models/clerk").body)["id"] == "clerk");
  CHECK(Fields::parse(
            server.send("/v1/completions", {{"model", "painter"}}).body)["error"]["message"] ==
        "there is no model 'painter' here, only 'tiny-chat', 'poet', 'clerk'");
  // Vectors are those of the adapter, too.
  const auto vector = [&](const std::string& name) {
    return server.ask_for("/v1/embeddings",
                          {{"model", name}, {"input", "once"}})["data"][0]["embedding"];
  };
  CHECK(vector("poet") != vector("tiny-chat"));
  CHECK(vector("poet") == vector("poet"));
}

TEST_CASE("requests with different adapters that come and go at random get their own texts",
          "[serve]") {
  const RunningServer busy(adapters().options() + Args{"--parallel", "6", "--max-waiting", "100"});
  struct Ask {
    Fields body;
    bool leaves = false;
    std::string together = {};
  };
  std::mt19937 random(8);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const std::vector<std::string> prompts = {"once upon a time", std::string(120, 'a')};
  const std::vector<std::string> names = {"tiny-chat", "poet", "clerk"};
  std::vector<Ask> asks(48);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    asks[i] = {.body = {{"model", names[static_cast<std::size_t>(below(3))]},
                        {"prompt", prompts[static_cast<std::size_t>(below(2))]},
                        {"seed", i},
                        {"max_tokens", 1 + below(50)},
                        {"top_k", 40},
                        {"temperature", 0.9}},
               .leaves = below(5) == 0};
    threads.emplace_back([&busy, &ask = asks[i], pause = below(300)] {
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
    INFO(ask.body.dump());
    CHECK(ask.together ==
          sampled(ask.body["prompt"],
                  Args{"--seed", ask.body["seed"].dump(), "--max-new-tokens",
                       ask.body["max_tokens"].dump(), "--top-k", "40", "--temperature", "0.9"} +
                      adapters().of(ask.body["model"])));
  }
}

TEST_CASE("adapters that are not the model's, or have no name, are refused at the start",
          "[serve]") {
  const auto refused = [](const Args& args, const std::filesystem::path& model) {
    const Result r = run_program("serve", Args{"--model", model, "--port", "0"} + args);
    CHECK(r.code != 0);
    return r.err;
  };
  const fs::path chat = tiny_chat_model().path;
  const fs::path gpt2 = fs::path(places::kSources) / "tests/golden/hf_gpt2";
  const fs::path other = fs::path(places::kSources) / "tests/golden/hf_llama_lora";
  CHECK_THAT(refused({"--lora", "poet=" + adapters().poet.string()}, gpt2),
             ContainsSubstring("poet") && ContainsSubstring("is no adapter of a linear layer"));
  CHECK_THAT(refused({"--lora", "llama=" + other.string()}, chat),
             ContainsSubstring("hf_llama_lora") && ContainsSubstring("has shape"));
  CHECK_THAT(refused({"--lora", adapters().poet.string()}, chat), ContainsSubstring("NAME=PATH"));
  CHECK_THAT(refused({"--lora", "tiny-chat=" + adapters().poet.string()}, chat),
             ContainsSubstring("the name 'tiny-chat' is taken"));
  CHECK_THAT(refused({"--lora", "x=" + (chat / "nothing").string()}, chat),
             ContainsSubstring("there are no adapters"));
}
