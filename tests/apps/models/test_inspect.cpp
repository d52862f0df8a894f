// The program inspect, from outside: what it prints and writes of a model and a text.

#include <cmath>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/apps/unprivileged.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using Json = nlohmann::json;

namespace {

const TinyRun& tiny() {
  static const TinyRun run(20);
  return run;
}

const std::string kGpt2 = testing::golden_file("hf_gpt2").string();

Result inspect(const std::string& model, const std::string& text, const Args& more = {}) {
  return run_program("inspect", Args{"--model", model, "--text", text} + more);
}

Json inspected(const std::string& model, const std::string& text, const Args& more = {}) {
  const Result r = inspect(model, text, more + Args{"--json"});
  check_ended_well(r);
  return Json::parse(r.out);
}

void check_error(const Result& r, int code, const std::string& text) {
  check_error_of("inspect", r, code, text);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Checks that each view is there for each token, and holds numbers that can be.
void check_views(const Json& j) {
  const std::size_t T = j.at("tokens").size();
  REQUIRE(T > 1);
  REQUIRE(j.at("predictions").size() == T);
  for (std::size_t t = 0; t < T; ++t) {
    const Json& p = j.at("predictions")[t];
    CHECK(p.at("next").is_null() == (t + 1 == T));
    CHECK(p.at("best").size() == 5);
    CHECK(p.at("best")[0].at("probability") >= p.at("best")[4].at("probability"));
  }
  for (const Json& layer : j.at("attention")) {
    for (const Json& head : layer) {
      REQUIRE(head.size() == T * (T + 1) / 2);
      for (std::size_t q = 0, i = 0; q < T; ++q) {
        int sum = 0;
        for (std::size_t k = 0; k <= q; ++k) sum += head[i++].get<int>();
        CHECK(std::abs(sum - 1000) <= static_cast<int>(q + 1));  // each is rounded
      }
    }
  }
  REQUIRE(j.at("lens").size() == j.at("attention").size() + 1);
  for (std::size_t t = 0; t < T; ++t) {  // the last row is what the model says
    const Json &last = j.at("lens").back()[t], &best = j.at("predictions")[t].at("best")[0];
    CHECK(last.at("text") == best.at("text"));
    CHECK(last.at("probability") == best.at("probability"));
    CHECK(last.at("next") == j.at("predictions")[t].at("next"));
  }
  REQUIRE(j.at("input_gradient").size() == T);
  CHECK(j.at("input_gradient")[0] > 0);
  CHECK(j.at("input_gradient")[T - 1] == 0);  // nothing is predicted from the last token
}

}  // namespace

TEST_CASE("inspect --json tells what the model computes", "[inspect]") {
  const std::string text = "the cat sat on";
  const Json j = inspected(tiny().run, text);
  check_views(j);
  CHECK(j.at("model") == tiny().run.string());
  CHECK(j.at("step") == 20);
  CHECK(j.at("text_tokens") == 14);
  CHECK(!j.contains("cut"));
  REQUIRE(j.at("attention").size() == 2);
  REQUIRE(j.at("attention")[0].size() == 2);
  const run::TextModel model = run::load(tiny().run);
  const auto ids = model.tokenizer.encode(text);
  const Tensor log_p = log_softmax(model.gpt(Tensor::from(ids, {1, 14})));
  double nats = 0;
  for (std::int64_t t = 0; t < 14; ++t) {
    const auto i = static_cast<std::size_t>(t);
    CHECK(j.at("tokens")[i].at("id") == ids[i]);
    CHECK(j.at("tokens")[i].at("text") == text.substr(i, 1));
    if (t == 13) continue;
    const double of_next = log_p.at({0, t, ids[i + 1]});
    CHECK(j.at("predictions")[i].at("next").get<double>() ==
          Approx(std::exp(of_next)).epsilon(1e-4));
    nats -= of_next;
  }
  CHECK(j.at("loss").get<double>() == Approx(nats / 13).epsilon(1e-4));
}

TEST_CASE("inspect opens every model that sample-text opens", "[inspect]") {
  const TempFolder nanogpt;
  std::filesystem::copy_file(testing::golden_file("nanogpt/ckpt.pt"), nanogpt / "ckpt.pt");
  std::filesystem::copy_file(testing::golden_file("nanogpt/meta_5.pkl"), nanogpt / "meta.pkl");
  std::vector<std::string> models = {nanogpt.path().string()};
  for (const char* name : {"hf_gpt2", "hf_llama", "hf_qwen2", "hf_qwen3", "gguf_gpt2.gguf",
                           "gguf_llama.gguf", "llmc/bf16.bin"}) {
    models.push_back(testing::golden_file(name).string());
  }
  for (const std::string& model : models) {
    INFO(model);
    const Json j = inspected(model, "e e");
    check_views(j);
    CHECK(j.at("step").is_null());
  }
}

TEST_CASE("inspect has attention of the blocks that have some, and says which", "[inspect]") {
  const TempFolder folder;
  folder.put("corpus.txt", tiny_text());
  const Args args = tiny_run(folder / "corpus.txt", folder / "run", 2) +
                    Args{"--n-layer", "3", "--mixer-pattern", "CA", "--conv-kernel", "2"};
  const Result trained = run_program("train", args);
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const Json j = inspected(folder / "run", "the cat");
  CHECK(j.at("attention").size() == 1);
  CHECK(j.at("attention_blocks") == Json::array({1}));
  CHECK(j.at("lens").size() == 4);
  CHECK_FALSE(inspected(tiny().run, "the cat").contains("attention_blocks"));
}

TEST_CASE("inspect prints a line for each token, and what could follow", "[inspect]") {
  const Result r = inspect(tiny().run, "the\ncat");
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("(step 20): 7 tokens, loss ") &&
                        ContainsSubstring("'\\n' ") && ContainsSubstring("\nthen "));
  CHECK(count_of(r.out, "\n") == 11);
}

TEST_CASE("inspect --html writes one file that asks for nothing, whatever the tokens",
          "[inspect]") {
  const TempFolder folder;
  const std::string hostile = "</script><script>alert(1)</script><!-- \"' \\ /* data */";
  const std::string file = (folder / "a <b>.html").string();
  const Result r = inspect(kGpt2, hostile, {"--html", file, "--json"});
  check_ended_well(r);
  const std::string page = TempFolder::get(file);
  CHECK(count_of(page, "</script") == 2);
  CHECK(count_of(page, "<script") == 2);
  for (const char* part : {" src=", " href=", "@import", "url(", "http:", "https:", "fetch("}) {
    INFO(part);
    CHECK(count_of(page, part) == 0);
  }
  CHECK_THAT(page, ContainsSubstring("default-src 'none'") &&
                       ContainsSubstring("export function renderInside(element, data, language)"));
  const std::string open = "id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  CHECK(Json::parse(page.substr(begin, page.find("</script>", begin) - begin)) ==
        Json::parse(r.out));
  CHECK_THAT(inspect(kGpt2, "a b", {"--html", file}).out, ContainsSubstring(file + " shows "));
}

TEST_CASE("tokens that are no whole characters, or would control a terminal, are named",
          "[inspect]") {
  const std::string text = "\xF0\x9F\x90\x88 \x1B[2J\xE2\x80\xAE\xFF";
  const Json j = inspected(kGpt2, text);
  std::string all;
  for (const Json& token : j.at("tokens")) all += token.at("text").get<std::string>();
  CHECK_THAT(all, ContainsSubstring("<0xF0>") && ContainsSubstring("<U+001B>[2J") &&
                      ContainsSubstring("<0xFF>"));
  const Result r = inspect(kGpt2, text);
  check_ended_well(r);
  CHECK(r.out.find('\x1B') == r.out.npos);
  CHECK(!find_invalid_utf8(r.out));
}

TEST_CASE("inspect looks at the last tokens of a text that is too long, and says so", "[inspect]") {
  const std::string text = "the cat sat on mat 7 and the dog ate.";
  const Json j = inspected(tiny().run, text);
  CHECK(j.at("cut") == true);
  CHECK(j.at("text_tokens") == text.size());
  REQUIRE(j.at("tokens").size() == 16);  // the block size
  CHECK(j.at("tokens")[15].at("text") == ".");
  CHECK_THAT(inspect(tiny().run, text).out, ContainsSubstring("16 tokens, the last of 37, loss"));
}

TEST_CASE("a single token has no loss, but a prediction", "[inspect]") {
  const Json j = inspected(tiny().run, "t");
  CHECK(j.at("loss").is_null());
  CHECK(j.at("attention")[0][0] == Json::array({1000}));
  CHECK(j.at("predictions")[0].at("next").is_null());
  CHECK(j.at("input_gradient") == Json::array({0}));
  check_ended_well(inspect(tiny().run, "t"));
}

TEST_CASE("inspect reads stdin, and takes the weights that it is told", "[inspect]") {
  const TempFolder folder;
  const auto reads = [&](const std::string& text) {
    const auto file = folder.put("in.txt", text);
    return Program("inspect", {"--model", tiny().run, "--text", "-", "--json"}, ".", file).wait();
  };
  const Result r = reads("\xEF\xBB\xBFthe cat");
  check_ended_well(r);
  CHECK(Json::parse(r.out) == inspected(tiny().run, "the cat"));
  CHECK(inspected(tiny().run, "\xEF\xBB\xBFthe cat") == Json::parse(r.out));
  check_error(Program("inspect", {"--model", tiny().run, "--text", "-"}, ".", folder.path()).wait(),
              1, "stdin cannot be read: Is a directory");
  check_error(reads(""), 1, "stdin: there is nothing to look at");
  check_error(reads(std::string((1 << 20) + 1, 'a')), 1, "stdin has more than 1048576 bytes");
  const Json best = inspected(tiny().run, "the cat", {"--checkpoint", "best"});
  CHECK(best.at("step") <= 20);
  CHECK(best.at("step") > 0);
  check_error(inspect(tiny().run, "the", {"--checkpoint", "7"}), 1,
              "keeps no checkpoint of step 7");
}

TEST_CASE("what inspect tells does not depend on the number of threads", "[inspect]") {
  const auto with = [](const char* threads) {
    return inspect(kGpt2, "the cat sat on the mat", {"--json", "--threads", threads}).out;
  };
  CHECK(with("1") == with("3"));
}

TEST_CASE("errors of inspect name what is wrong", "[inspect]") {
  const TempFolder folder;
  check_error(run_program("inspect", {"--text", "a"}), 2, "--model is needed");
  check_error(run_program("inspect", {"--model", kGpt2}), 2, "--text is needed");
  check_error(inspect(kGpt2, ""), 2, "--text: there is nothing to look at");
  check_error(inspect(kGpt2, "\xEF\xBB\xBF"), 2, "--text: there is nothing to look at");
  check_error(inspect(kGpt2, "a", {"--html", ""}), 2, "--html: the file needs a name");
  check_error(inspect(folder / "none", "a"), 1, "does not exist");
  check_error(inspect(tiny().run, "the cät"), 1, "'ä' (U+00E4)");
  check_error(inspect(kGpt2, "a", {"--html", folder / "none/a.html"}), 1, "none/a.html");
  check_error(inspect(reverser().run, "12"), 1, "tapegrad-seq2seq");
}

TEST_CASE("nothing in a hostile folder leads inspect out of it", "[inspect]") {
  const std::string name = GENERATE("config.json", "tokenizer.json", "model.safetensors");
  const TinyRun run(2);
  std::filesystem::rename(run.run / name, run.folder / "outside");
  std::filesystem::create_symlink(run.folder / "outside", run.run / name);
  const Args args = {"--model", run.run, "--text", "the cat", "--json"};
  check_error(run_unprivileged("inspect", args, run.folder.path()), 1, "symbolic link");
}
