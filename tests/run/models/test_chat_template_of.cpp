// Which chat template a model has, and what it knows of the model's tokens.

#include "tapegrad/run/models/chat_template_of.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/run/models/settings_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

const data::Conversation kHello{.messages = {{.role = "user", .content = "a"}}};
const Files kFiles = {
    {"tokenizer_config.json",
     R"({"chat_template": [{"name": "default", "template": "D{{ bos_token }}{{ eos_token }}"},)"
     R"({"name": "tool_use", "template": "T{{ image_token }}"}], "bos_token": {"content": "<b>"},)"
     R"("eos_token": "<e>", "image_token": "<i>", "add_bos_token": true, "pad_token": null})"}};

std::string rendered(const fs::path& model, std::string_view name = {}) {
  const run::OpenedModel opened = run::open_model(model);
  const auto found = run::chat_template_of(opened.settings, opened.tokenizer, name);
  return found ? found->render(kHello, false).text : "none";
}

}  // namespace

TEST_CASE("a template comes from chat_template.jinja, tokenizer_config.json or GGUF",
          "[chat_template_of]") {
  const TempFolder folder;
  CHECK(rendered(put_hf_model(folder, kSettings, "jinja")) == "<|user|>\naé");
  CHECK(rendered(put_hf_model(folder, kFiles, "named")) == "D<b><e>");
  CHECK(rendered(folder / "named", "tool_use") == "T<i>");
  CHECK_THROWS_WITH(rendered(folder / "named", "rag"),
                    "the model has no chat template 'rag'; it has: default, tool_use");
  CHECK(rendered(put_gguf_model(folder)) == "<|user|>\naé");
  CHECK(rendered(put_hf_model(folder, {}, "bare")) == "none");
  const Files broken = {{"chat_template.jinja", "\n{% if %}"}};
  CHECK_THROWS_WITH(rendered(put_hf_model(folder, broken, "broken")),
                    Catch::Matchers::StartsWith("[chat template] line 2: "));
}

TEST_CASE("a model's template may be a link within the model or Hugging Face's cache alone",
          "[chat_template_of]") {
  const TempFolder folder;
  const std::string name = "chat_template.jinja";
  const fs::path model = put_hf_model(folder, {}), secret = folder.put("secret", "mine");
  fs::create_symlink(secret, model / name);
  CHECK_THROWS_WITH(rendered(model), ContainsSubstring("secret, outside of the model: put a copy"));
  fs::create_directory_symlink(model, folder / "link");
  CHECK_THROWS_WITH(rendered(folder / "link"), ContainsSubstring("outside of the model"));
  fs::remove(model / name);
  folder.put("in/other.txt", "inside");
  fs::create_symlink("other.txt", model / name);
  CHECK(rendered(model) == "inside");
  const fs::path cached = put_hf_model(folder, {}, "hub/snapshots/1");
  fs::create_directory(folder / "hub/blobs");
  folder.put("hub/blobs/0123", "blob");
  fs::create_symlink("../../blobs/0123", cached / name);
  CHECK(rendered(cached) == "blob");
}

TEST_CASE("ChatML is for models that have its tokens, and no template", "[chat_template_of]") {
  const TempFolder folder;
  const run::OpenedModel bare = run::open_model(put_hf_model(folder, {}, "bare"));
  CHECK_FALSE(run::chat_template_or_chatml(bare.settings, bare.tokenizer));
  const auto tokenizer = data::Tokenizer::of_characters("ab<|>");
  CHECK_FALSE(run::chat_template_or_chatml({}, tokenizer));
}

TEST_CASE("answers end where the template writes a special token behind them",
          "[chat_template_of]") {
  const TempFolder folder;
  const run::OpenedModel bare = run::open_model(put_hf_model(folder, {}, "bare"));
  const auto ends_of = [&](const std::string& behind) {
    return run::answer_ends(
        data::ChatTemplate("{% for m in messages %}{{ m.content }}" + behind + "{% endfor %}"),
        bare.tokenizer);
  };
  const std::vector<data::Token> end = bare.tokenizer.encode("<|endoftext|>", true);
  REQUIRE(end.size() == 1);
  CHECK(ends_of("<|endoftext|>\\n") == end);
  CHECK(ends_of("\nUser: ").empty());
  CHECK(ends_of("").empty());
  CHECK(ends_of("{{ raise_exception('no') }}").empty());
}

TEST_CASE("answers end at a special token, not at the space before it", "[chat_template_of]") {
  // It puts a space before each text.
  const auto tokenizer = data::Tokenizer::of_hf(
      golden_json("sentencepiece.json").at("llama").at("file").get<std::string>());
  const auto ends_of = [&](const std::string& behind) {
    return run::answer_ends(
        data::ChatTemplate("{% for m in messages %}{{ m.content }}" + behind + "{% endfor %}"),
        tokenizer);
  };
  const std::vector<data::Token> end = {tokenizer.encode("</s>", true).back()};
  CHECK(ends_of(" </s>") == end);
  CHECK(ends_of("</s>") == end);
  CHECK(ends_of("\n").empty());
  CHECK(ends_of(" the").empty());
}
