// The engine of the page of `export --format web`, compiled for this machine: a page must say what
// the library says.

#include "tapegrad/apps/inspect/views.h"
#include "tapegrad/apps/web/web_engine.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/text/internal/base64.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/run/models/formats/web_format.h"
#include "tapegrad/tests/apps/web/program_with_page.h"

using namespace tapegrad;

namespace {

namespace fs = std::filesystem;

const TinyRun& chars() {
  static const TinyRun run(30, {});
  return run;
}

const TinyRun& pairs() {
  static const TinyRun run(30, {"--tokenizer", "bpe:280"});
  return run;
}

data::Tokenizer small_pairs() { return data::Tokenizer::train_bpe(tiny_text(), 280); }

// The folder's weights, as a page opens them.
struct Opened {
  ProgramWithPage with_page;
  std::unique_ptr<web::Engine> engine;
  run::TextModel model;
  explicit Opened(const TinyRun& run, const Args& more = {}) : model(run::load(run.run)) {
    check_ended_well(with_page.exported(run.run, with_page.folder / "page", more));
    engine = std::make_unique<web::Engine>((with_page.folder / "page/model.safetensors").string());
  }
  Json ask(const Json& request) const { return engine->answer(request); }
};

Json begin(const std::string& prompt, bool greedy, std::int64_t top_k = 0) {
  return {{"do", "begin"},    {"prompt", prompt},   {"max_new_tokens", 40},
          {"greedy", greedy}, {"temperature", 0.9}, {"top_k", top_k},
          {"seed", 7U}};
}

std::string written(const Opened& opened, const Json& request) {
  opened.ask(request);
  std::string text;
  for (Json next = opened.ask({{"do", "next"}});; next = opened.ask({{"do", "next"}})) {
    text += next["text"].get<std::string>();
    if (next.contains("end")) return text;
  }
}

}  // namespace

TEST_CASE("a page writes the text that the library writes", "[web]") {
  for (const TinyRun* run : {&chars(), &pairs()}) {
    const Opened opened(*run);
    for (const std::string prompt : {"the", ""}) {
      CHECK(written(opened, begin(prompt, true)) ==
            opened.model.stream(prompt, {.max_new_tokens = 40, .greedy = true}, 7).text());
      const nn::GenerateOptions options{.max_new_tokens = 40, .temperature = 0.9, .top_k = 5};
      CHECK(written(opened, begin(prompt, false, 5)) ==
            opened.model.stream(prompt, options, 7).text());
    }
  }
}

TEST_CASE("a page has GPT-2's tokenizer, and one of Hugging Face's that works like it", "[web]") {
  const TempFolder folder;
  for (const std::string& tokenizer :
       {std::string("gpt2"), folder.put("tokenizer.json", small_pairs().hf_json()).string()}) {
    const TinyRun run(2, {"--tokenizer", tokenizer});
    const Opened opened(run);
    CHECK(opened.model.tokenizer.kind() == (tokenizer == "gpt2" ? "gpt2" : "hf"));
    for (const std::string prompt : {"the cat's 12<|endoftext|>", ""}) {
      CHECK(written(opened, begin(prompt, true)) ==
            opened.model.stream(prompt, {.max_new_tokens = 40, .greedy = true}, 7).text());
    }
  }
}

TEST_CASE("a page shows the likeliest tokens and their probabilities", "[web]") {
  const Opened opened(chars());
  opened.ask(begin("the", true));
  const Json next = opened.ask({{"do", "next"}});
  const std::vector<data::Token> ids = opened.model.tokens_of("the");
  const Tensor logits = opened.model.gpt.last_logits(Tensor::from(ids, {1, std::ssize(ids)}));
  const nn::LogProbabilities expected(
      {logits.data<float>(), static_cast<std::size_t>(logits.numel())});
  REQUIRE(next["best"].size() == 10);
  CHECK(next["id"] == next["best"][0]["id"]);
  CHECK(next["probability"] == next["best"][0]["probability"]);
  for (std::size_t i = 0; i < 10; ++i) {
    const nn::TokenLogprob token = expected.likeliest(10)[i];
    CHECK(next["best"][i]["id"] == token.token);
    CHECK(next["best"][i]["text"] == opened.model.tokenizer.token_bytes(token.token));
    CHECK(next["best"][i]["probability"].get<double>() ==
          Approx(std::exp(token.logprob)).epsilon(1e-5));
  }
}

TEST_CASE("a page's attention and gradients are those of inspect", "[web]") {
  const Opened opened(pairs());
  const std::vector<data::Token> tokens = opened.model.tokens_of("the cat");
  const inspect::Look look{
      .model = "page",
      .step = {},
      .bytes_of = [&](data::Token t) { return opened.model.tokenizer.token_bytes(t); },
      .text_tokens = std::ssize(tokens),
      .inside = inspect::look_inside(opened.model.gpt, tokens)};
  CHECK(json_text(opened.ask({{"do", "look"}, {"text", "the cat"}})) == inspect::json_text(look));
}

TEST_CASE("a page learns a text, and writes by the new weights", "[web]") {
  const Opened opened(chars());
  const std::string before = written(opened, begin("the", true));
  CHECK(opened.ask({{"do", "train"},
                    {"text", "the theme then"},
                    {"batch_size", 4},
                    {"learning_rate", 0.01},
                    {"seed", 1U}})["tokens"] == 14);
  std::vector<double> losses;
  for (int i = 0; i < 40; ++i) losses.push_back(opened.ask({{"do", "step"}})["loss"]);
  CHECK(losses.back() < losses.front() / 2);
  // The same steps by the library: this text is as long as a row of a batch, which is then all of
  // it.
  const nn::Tokens all = opened.model.tokens_of("the theme then");
  nn::Tokens inputs, targets;
  for (int row = 0; row < 4; ++row) {
    inputs.insert(inputs.end(), all.begin(), all.end() - 1);
    targets.insert(targets.end(), all.begin() + 1, all.end());
  }
  Rng rng(1);
  const NamedTensors& parameters = opened.model.params.parameters();
  optim::AdamW optimizer(parameters, {.beta2 = 0.99});
  for (int i = 0; i < 5; ++i) {
    for (int row = 0; row < 4; ++row) rng.randint(1);
    Tape tape;
    const Tensor loss =
        opened.model.gpt.loss(Tensor::from(inputs, {4, 13}), Tensor::from(targets, {4, 13}), &rng);
    CHECK(losses[static_cast<std::size_t>(i)] == Approx(loss.item()).epsilon(1e-5));
    tape.backward(loss);
    optimizer.step(0.01, optim::measure_clipping(parameters, 1).factor);
    optimizer.zero_grad();
  }
  CHECK(written(opened, begin("the", true)) != before);
}

TEST_CASE("a page's weights may be halves", "[web]") {
  const Opened opened(chars(), {"--dtype", "f16"});
  CHECK(opened.ask({{"do", "facts"}})["parameters"] == opened.model.params.count());
  CHECK(written(opened, begin("the", true)).size() == 40);
}

TEST_CASE("what a page asks for wrongly is an error in words", "[web]") {
  const Opened opened(chars());
  const auto refused = [&](const Json& request, const std::string& words) {
    CHECK_THROWS_WITH(opened.ask(request), ContainsSubstring(words));
  };
  refused({{"do", "dance"}}, "'dance'");
  refused({{"do", "next"}}, "no text was begun");
  refused({{"do", "step"}}, "no text to learn");
  refused({{"do", "begin"}}, "'prompt' is missing");
  refused(begin("\u00e9", true), "U+00E9");
  refused({{"do", "look"}, {"text", ""}}, "no token");
  Json cold = begin("the", false);
  cold["temperature"] = 0;
  refused(cold, "temperature");
  const auto train = [](const std::string& text, int batch_size, double learning_rate) {
    return Json{{"do", "train"},
                {"text", text},
                {"batch_size", batch_size},
                {"learning_rate", learning_rate},
                {"seed", 1U}};
  };
  refused(train("t", 1, 0.1), "too short");
  refused(train("the", 0, 0.1), "batch_size 0");
  refused(train("the", 1, 0), "learning_rate 0");
  CHECK_THAT(web::answer("{"), ContainsSubstring("\"error\""));
  CHECK_THAT(web::answer(R"({"do": "facts"})"), ContainsSubstring("no model is open"));
  CHECK_THAT(web::answer(R"({"open": "nowhere"})"), ContainsSubstring("nowhere"));
}

TEST_CASE("a page in one file has the weights in it", "[web]") {
  const ProgramWithPage with_page;
  const fs::path out = with_page.folder / "notes.html";
  check_ended_well(with_page.exported(chars().run, out));
  check_ended_well(with_page.exported(chars().run, with_page.folder / "page"));
  const std::string text = TempFolder::get(out), begins = "<script>", ends = "</script>";
  REQUIRE(text.starts_with(begins));
  std::string base64 = text.substr(begins.size(), text.find(ends) - begins.size());
  const fs::path weights = with_page.folder.put("weights", bytes_of_base64(base64, "page"));
  CHECK(web::Engine(weights.string()).answer({{"do", "facts"}})["name"] == "notes");
  CHECK(TempFolder::get(with_page.folder / "page/index.html") == "<script>/* model */</script>");
  CHECK(!fs::exists(out.string() + ".part-1"));
}

TEST_CASE("a page that cannot be made is refused, and nothing is written", "[web]") {
  const auto refused = [](const ProgramWithPage& with_page, const fs::path& model,
                          const std::string& words, const Args& more = {}) {
    const fs::path out = with_page.folder / "out";
    check_error_of("tapegrad export", with_page.exported(model, out, more), 1, words);
    CHECK(!fs::exists(out));
  };
  refused(ProgramWithPage(""), chars().run, "scripts/web.sh");
  refused(ProgramWithPage("<html>"), chars().run, "no place for a model");
  const ProgramWithPage with_page;
  refused(with_page, chars().run, "--format web cannot store q8_0", {"--dtype", "q8_0"});
  const TempFolder folder;
  std::string json = small_pairs().hf_json();
  json.replace(json.find("\"normalizer\":null"), 17, "\"normalizer\":{\"type\":\"NFC\"}");
  const TinyRun normalized(2, {"--tokenizer", folder.put("tokenizer.json", json)});
  refused(with_page, normalized.run, "not this hf: its normalizer changes texts");

  // Four gigabytes, of which this has the shapes alone.
  const nn::Params params = nn::Params::shapes_only();
  const nn::DecoderConfig config{.vocab_size = 2, .n_layer = 20, .n_head = 16, .n_embd = 2048};
  const run::TextModel large{params, nn::Decoder(params, config),
                             data::Tokenizer::of_characters("ab")};
  const fs::path out = with_page.folder / "large";
  CHECK_THROWS_WITH(run::export_web_file(large, out, stored_type("f32")),
                    ContainsSubstring("a page holds 256 MB"));
  CHECK_THROWS_WITH(run::export_web(large, out, stored_type("f32")),
                    ContainsSubstring("a page holds 1024 MB"));
  CHECK(!fs::exists(out));
}
