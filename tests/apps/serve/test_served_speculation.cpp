// Speculative decoding changes no answer of `serve`, and its memory is counted.

#include <algorithm>
#include <thread>

#include "tapegrad/apps/serve/model_server.h"
#include "tapegrad/tests/apps/serve/script_model.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using tapegrad::testing::normal;
using tapegrad::testing::tiny_config;
namespace fs = std::filesystem;

namespace {

// The tiny model with room for the descriptions of tools; the same with other weights, which is
// often wrong, and of which a text outgrows the context; and adapters.
struct Speculated {
  TinyChatModel tiny;
  fs::path path = tiny.path, draft = tiny.folder / "draft", poet = tiny.folder / "poet";
  Speculated() {
    Fields config = Fields::parse(TempFolder::get(path / "config.json"));
    config["max_position_embeddings"] = 4096;
    tiny.folder.put("tiny-chat/config.json", config.dump());
    run::TextModel model = run::load(path);
    Rng rng(4);
    Tensor noisy = model.gpt.wte.weight;
    const Tensor noise = normal(rng, noisy.shape(), DType::f32, 0.02);
    for (std::int64_t i = 0; i < noisy.numel(); ++i) {
      noisy.mutable_data<float>()[i] += noise.data<float>()[i];
    }
    model.gpt.config.block_size = 40;
    run::save_model(draft, model);
    std::map<std::string, Tensor> tensors;
    for (int block = 0; block < model.gpt.config.n_layer; ++block) {
      const std::string name = "layers." + std::to_string(block) + ".self_attn.q_proj";
      tensors.emplace(name + ".lora_A.weight", normal(rng, {3, 16}, DType::f32, 0.3));
      tensors.emplace(name + ".lora_B.weight", normal(rng, {16, 3}, DType::f32, 0.3));
    }
    const run::Adapter adapter{{.rank = 3, .alpha = 6, .targets = {"*.self_attn.q_proj"}},
                               memory_source(tensors, "made")};
    run::write_peft(poet, adapter, model.gpt.config, "tiny-chat");
  }
};

const Speculated& speculated() {
  static const Speculated made;
  return made;
}

struct Ask {
  std::string path;
  Fields body;
};

// Requests of all kinds, whose answers have many tokens.
std::vector<Ask> all_kinds() {
  const Fields completion = {{"prompt", "the cat the cat the"}, {"max_tokens", 60}, {"seed", 7}};
  const Fields chat = {
      {"messages", {{{"role", "user"}, {"content", "a b a b"}}}}, {"max_tokens", 60}, {"seed", 8}};
  const Fields schema = Fields::parse(R"({"type":"object","properties":{"a":{"type":"array",
      "items":{"enum":["x","yy"]},"minItems":8,"maxItems":9}},"required":["a"],
      "additionalProperties":false})");
  const Fields tool = {{"type", "function"},
                       {"function", {{"name", "go"}, {"strict", true}, {"parameters", schema}}}};
  std::vector<Ask> asks;
  const auto add = [&](const std::string& path, Fields body, const Fields& more) {
    body.update(more);
    asks.push_back({path, std::move(body)});
  };
  for (const Fields& more :
       {Fields{{"temperature", 0}}, Fields{{"n", 3}, {"temperature", 0.7}, {"logprobs", 2}},
        Fields{{"presence_penalty", 0.5}, {"frequency_penalty", 0.3}, {"repetition_penalty", 1.1}},
        Fields{{"temperature", 0}, {"stop", {"e", "q"}}}, Fields{{"stream", true}, {"n", 2}},
        Fields{{"echo", true}, {"logprobs", 1}}, Fields{{"model", "poet"}, {"temperature", 0}},
        Fields{{"min_tokens", 30}, {"logit_bias", {{"0", 5}, {"65", 2}}}, {"top_k", 5}},
        Fields{{"max_tokens", 0}, {"echo", true}, {"logprobs", 1}}, Fields{{"max_tokens", 1}},
        Fields{{"prompt", std::string(400, 'a')}, {"temperature", 0}, {"max_tokens", 20}}}) {
    add("/v1/completions", completion, more);
  }
  for (const Fields& more :
       {Fields{{"response_format", {{"type", "json_object"}}}},
        Fields{{"response_format",
                {{"type", "json_schema"}, {"json_schema", {{"name", "a"}, {"schema", schema}}}}}},
        Fields{{"tools", {tool}}, {"tool_choice", "required"}, {"n", 2}, {"stream", true}},
        Fields{{"temperature", 0}, {"logprobs", true}, {"top_logprobs", 3}}}) {
    add("/v1/chat/completions", chat, more);
  }
  add("/v1/embeddings", {{"input", "the cat"}}, Fields::object());
  return asks;
}

std::string answer_of(const RunningServer& server, const Ask& ask) {
  const Reply reply = server.send(ask.path, ask.body);
  return reply.status == 200 ? reply.body : "status " + std::to_string(reply.status) + reply.body;
}

// An answer without its name and time. The pieces of a stream depend on how many tokens come at
// once: what they say together does not.
std::vector<std::string> said_by(const Ask& ask, const std::string& answer) {
  if (answer.starts_with("status ")) return {answer};
  if (!ask.body.value("stream", false)) {
    Fields whole = Fields::parse(answer);
    whole.erase("id");
    whole.erase("created");
    return {whole.dump()};
  }
  std::vector<std::string> said(4);
  std::size_t at = 0;
  for (std::size_t end; (end = answer.find("\n\n", at)) != answer.npos; at = end + 2) {
    const std::string event = answer.substr(at + 6, end - at - 6);
    if (event == "[DONE]") break;
    const Fields whole = Fields::parse(event);
    for (const Fields& choice : whole["choices"]) {
      std::string& text = said.at(choice["index"]);
      text += choice.value("text", "");
      const Fields delta = choice.value("delta", Fields::object());
      if (delta.contains("content") && delta["content"].is_string()) {
        text += delta["content"].get<std::string>();
      }
      for (const Fields& call : delta.value("tool_calls", Fields::array())) {
        text += call["function"].value("name", "") + call["function"].value("arguments", "");
      }
      if (!choice["finish_reason"].is_null()) text += "|" + choice["finish_reason"].dump();
    }
  }
  return said;
}

}  // namespace

TEST_CASE("answers with speculative decoding are those without it, alone and in company",
          "[serve]") {
  const Args lora = {"--lora", "poet=" + speculated().poet.string()};
  const std::vector<Ask> asks = all_kinds();
  static std::vector<std::vector<std::string>> expected;
  if (expected.empty()) {
    const RunningServer plain(lora, speculated().path);
    for (const Ask& ask : asks) {
      const std::string answer = answer_of(plain, ask);
      INFO(ask.body.dump());
      REQUIRE(!answer.starts_with("status "));
      expected.push_back(said_by(ask, answer));
    }
    CHECK(plain.metric("tapegrad_proposed_tokens_total") == 0);
  }
  const Args how = GENERATE(Args{"--lookup", "8"}, Args{"--draft", speculated().path},
                            Args{"--draft", speculated().draft, "--draft-tokens", "7"});
  const RunningServer server(lora + how, speculated().path);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    INFO(how.back() << " " << asks[i].body.dump());
    CHECK(said_by(asks[i], answer_of(server, asks[i])) == expected[i]);
  }
  const double accepted = server.metric("tapegrad_accepted_tokens_total");
  CHECK(accepted > 0);
  CHECK(accepted <= server.metric("tapegrad_proposed_tokens_total"));
  for (const std::size_t at_once : {2U, 4U, 16U}) {
    for (std::size_t begin = 0; begin < asks.size(); begin += at_once) {
      const std::size_t end = std::min(begin + at_once, asks.size());
      std::vector<std::string> answers(asks.size());
      std::vector<std::thread> threads;
      for (std::size_t i = begin; i < end; ++i) {
        threads.emplace_back([&, i] { answers[i] = answer_of(server, asks[i]); });
      }
      for (std::thread& thread : threads) thread.join();
      for (std::size_t i = begin; i < end; ++i) {
        INFO(at_once << " at once " << asks[i].body.dump());
        CHECK(said_by(asks[i], answers[i]) == expected[i]);
      }
    }
  }
}

TEST_CASE("a budget of reasoning ends it with speculative decoding, too", "[serve]") {
  const ScriptModel model({{'>', {"so", " it", " is", "</think>", "Yes."}}}, "</think>");
  const RunningServer plain({}, model.tiny.path);
  const RunningServer drafted({"--draft", model.tiny.path}, model.tiny.path);
  for (const int budget : {0, 1, 2, 3, 9}) {
    const Ask ask = {"/v1/chat/completions",
                     {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                      {"chat_template_kwargs", {{"start", "<think>"}}},
                      {"temperature", 0},
                      {"seed", 1},
                      {"max_tokens", 20},
                      {"thinking_budget", budget}}};
    INFO(budget);
    CHECK(said_by(ask, answer_of(drafted, ask)) == said_by(ask, answer_of(plain, ask)));
  }
  CHECK(drafted.metric("tapegrad_accepted_tokens_total") > 0);
}

TEST_CASE("what breaks behind a stop does not take the text before it", "[serve]") {
  const ScriptModel::Scripts scripts = {{'>', {"a", "b", "c", "d", "e", "f", ".", "X", "Y", "Z"}}};
  const ScriptModel model(scripts), draft(scripts);
  // Behind X, the logit of Y is infinite: they alone have a part in the first channel.
  const std::string weights = model.tiny.path / "model.safetensors";
  const Fields tokenizer = Fields::parse(TempFolder::get(model.tiny.path / "tokenizer.json"));
  const auto row_of = [&](const char* piece) {
    return tokenizer["model"]["vocab"][piece].get<std::int64_t>();
  };
  NamedTensors tensors;
  for (auto [name, tensor] : load_safetensors(weights).tensors) {
    const bool is_head = name == "lm_head.weight";
    if (is_head || name == "model.embed_tokens.weight") {
      float* const values = tensor.mutable_data<float>();
      const std::int64_t width = tensor.dim(1);
      for (std::int64_t row = 0; row < tensor.dim(0); ++row) values[row * width] = 0;
      if (!is_head) std::fill_n(values + row_of("X") * width, width, 0.0F);
      values[row_of(is_head ? "Y" : "X") * width] = is_head ? 3e38F : 1.0F;
    }
    tensors.emplace_back(name, tensor);
  }
  save_safetensors(weights, tensors);
  for (const Args& how : {Args{}, Args{"--draft", draft.tiny.path}}) {
    const RunningServer server(how, model.tiny.path);
    // In some of these, the stop and X come in one step.
    for (std::string text = "abcdef"; !text.empty(); text.erase(0, 1)) {
      const std::string prompt = text.substr(0, 1);
      const Fields body = {{"prompt", prompt}, {"temperature", 0}, {"max_tokens", 20}};
      Fields stopped = body;
      stopped["stop"] = ".";
      const Fields choice = server.ask_for("/v1/completions", stopped)["choices"][0];
      CHECK(prompt + choice["text"].get<std::string>() == text);
      CHECK(choice["finish_reason"] == "stop");
      CHECK(server.send("/v1/completions", body).status == 500);
    }
    CHECK(server.comes_to("tapegrad_texts_running", 0));
    CHECK((server.metric("tapegrad_accepted_tokens_total") > 0) == !how.empty());
  }
}

TEST_CASE("the memory for keys and values has room for those of the draft", "[serve]") {
  nn::DecoderConfig model = tiny_config(), draft = tiny_config();
  model.block_size = 4096;
  draft.n_layer = 3 * model.n_layer;
  const auto bytes = static_cast<std::uint64_t>(nn::cache_bytes_per_position(model));
  serve::ServerBounds bounds{.max_sequences = 2, .cache_bytes = 400 * bytes};
  CHECK(serve::plan_engine(model, bounds).context == 400);
  bounds.draft = &draft;
  const serve::EnginePlan plan = serve::plan_engine(model, bounds);
  CHECK(plan.context == 100);
  CHECK(plan.engine.limits.max_positions == 100);
}

TEST_CASE("the memory for keys and values has room for whole states of recurrent models",
          "[serve]") {
  nn::DecoderConfig model = tiny_config();
  model.block_size = 4096;
  model.mixer_pattern = "D";
  const auto bytes = static_cast<std::uint64_t>(nn::cache_bytes_per_position(model));
  serve::ServerBounds bounds{.max_sequences = 2};
  const auto context = [&](std::uint64_t positions, std::int64_t ctx) {
    bounds.cache_bytes = positions * bytes, bounds.ctx = ctx;
    return serve::plan_engine(model, bounds).context;
  };
  CHECK(context(700, 4096) == 512);
  CHECK(context(700, 300) == 300);
  CHECK(context(500, 300) == 256);
  CHECK(context(10'000, 10) == 10);
  CHECK(serve::plan_engine(model, bounds).engine.limits.max_positions == 2 * 256);
  CHECK_THROWS_WITH(context(255, 10), ContainsSubstring("has room for 255 tokens") &&
                                          ContainsSubstring("a text that of 256 at least"));
}

TEST_CASE("a draft stays while serve follows a run, and texts are those of its newest checkpoint",
          "[serve]") {
  const TinyRun run(5), small(5, {"--n-layer", "1", "--n-embd", "16", "--block-size", "8"});
  const Fields greedy = {{"prompt", "the cat"}, {"temperature", 0}, {"max_tokens", 9}};
  const auto sampled_now = [&] {
    return sampled("the cat", {"--greedy", "--max-new-tokens", "9"}, run.run);
  };
  const RunningServer small_draft({"--follow", "--draft", small.run}, run.run);
  const RunningServer own_draft({"--follow", "--draft", run.run}, run.run);
  const std::string before = sampled_now();
  CHECK(small_draft.text(greedy) == before);
  CHECK(own_draft.text(greedy) == before);
  check_ended_well(train(resume_run(run.run, 60)));
  const std::string after = sampled_now();
  REQUIRE(after != before);
  CHECK(small_draft.text(greedy) == after);
  CHECK(own_draft.text(greedy) == after);
}

TEST_CASE("a draft that cannot propose for a model is refused when serve and chat start",
          "[serve]") {
  const TinyRun run(5);
  CorpusAndRun other("other.txt", replaced(tiny_text(), "c", "C"));
  check_ended_well(train(tiny_run(other.corpus, other.run, 1)));
  for (const std::string program : {"serve", "chat"}) {
    const auto refused = [&](const Args& args) {
      const Args port = program == "serve" ? Args{"--port", "0"} : Args{"-p", "a"};
      return run_program(program, Args{"--model", run.run} + port + args);
    };
    check_error_of(program, refused({"--draft", run.run, "--lookup", "4"}), 2,
                   "--draft excludes --lookup");
    check_error_of(program, refused({"--lookup", "65"}), 2,
                   "--lookup: must be from 0 to 64, not 65");
    check_error_of(program, refused({"--draft", "nowhere"}), 1, "nowhere");
    const Result tokens = refused({"--draft", other.run});
    check_error_of(program, tokens, 1, "--draft " + other.run.string() + ": ");
    CHECK_THAT(tokens.err, ContainsSubstring("both must have the same tokens"));
  }
}
