// train-gpt --isolate-documents: documents in a window do not see each other.

#include <cmath>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

// Stories of a few words, one a line of JSON lines.
std::string short_stories(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "{\"text\": \"a cat sat on mat " + std::to_string(i % 10) + ".\"}\n";
  }
  return text;
}

// Runs on short_stories, of which a window has some.
struct Stories {
  TempFolder folder;
  std::filesystem::path corpus = folder.put("short_stories.jsonl", short_stories(200));

  Args args(const std::string& run, int iters, const Args& more = {"--isolate-documents"}) const {
    return tiny_run(corpus, folder / run, iters) + Args{"--tokenizer", "bpe:270"} + more;
  }
  std::filesystem::path made(const std::string& run, int iters,
                             const Args& more = {"--isolate-documents"}) const {
    check_ended_well(train(args(run, iters, more)));
    return folder / run;
  }
};

Json evaluated(const std::filesystem::path& run, const Args& args) {
  const Result r = run_program("evaluate", Args{"--model", run, "--json"} + args);
  INFO(r.err);
  REQUIRE(r.code == 0);
  return Json::parse(r.out);
}

}  // namespace

TEST_CASE("a run that keeps documents apart resumes to the same bits, and only as such",
          "[isolated-documents]") {
  const Stories short_stories;
  const auto whole = short_stories.made("whole", 8), parts = short_stories.made("parts", 5);
  check_ended_well(train(resume_run(parts, 8)));
  CHECK(same_model(parts, whole));
  CHECK_FALSE(same_model(short_stories.made("together", 8, {}), whole));
  CHECK(same_model(short_stories.made("again", 8, {"--isolate-documents", "--recompute"}), whole));
  CHECK(same_model(short_stories.made("threads", 8, {"--isolate-documents", "--threads", "3"}),
                   whole));
  check_unparsed(resume_run(parts, 9) + Args{"--no-isolate-documents"}, 2,
                 "--isolate-documents false does not fit the run to resume");
}

TEST_CASE("tokens in files keep their documents apart as those of a text do",
          "[isolated-documents]") {
  const Stories short_stories;
  const auto corpus = short_stories.folder.put("more.jsonl", ::short_stories(500));
  const auto tokens = short_stories.folder / "tokens";
  check_ended_well(
      run_program("prepare", {"--corpus", corpus, "--tokenizer", "bpe:270", "--out-dir", tokens}));
  const auto run = [&](const std::string& name, int iters, const Args& more) {
    Args args = tiny_run("", short_stories.folder / name, iters);
    args.erase(args.begin(), args.begin() + 2);
    check_ended_well(train(Args{"--data", tokens} + args + Args{"--tokenizer", "bpe:270"} + more));
    return short_stories.folder / name;
  };
  const auto whole = run("whole", 8, {"--isolate-documents"});
  const auto parts = run("parts", 5, {"--isolate-documents"});
  check_ended_well(train(resume_run(parts, 8)));
  CHECK(same_model(parts, whole));
  CHECK_FALSE(same_model(run("together", 8, {}), whole));
}

TEST_CASE("evaluations keep documents apart as the training did", "[isolated-documents]") {
  const Stories short_stories;
  const auto run = short_stories.made("run", 6, {"--isolate-documents", "--final-eval", "all"});
  const std::string metrics = TempFolder::get(run / "metrics.jsonl");
  const Json last = Json::parse(metrics.substr(metrics.rfind('\n', metrics.size() - 2) + 1));
  const Result r = train({"--eval-only", "--out-dir", run});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring(
                        fmt::format("loss {:.4f}", last.at("final_val_loss").get<double>())));

  const Json apart = evaluated(run, {short_stories.corpus});
  const Json together = evaluated(run, {short_stories.corpus, "--no-isolate-documents"});
  CHECK(apart.at("isolate_documents") == true);
  CHECK(together.at("isolate_documents") == false);
  CHECK(apart.at("loss") != together.at("loss"));
  CHECK(apart.at("tokens") == together.at("tokens"));
}

TEST_CASE("a document that is kept apart is predicted as it is alone", "[isolated-documents]") {
  const Stories short_stories;
  const auto run = short_stories.made("run", 6);
  const auto nats = [&](std::string_view text, const Args& more = {}) {
    const Json json = evaluated(run, Args{short_stories.folder.put("text.txt", text)} + more);
    return std::pair(json.at("loss").get<double>() * json.at("tokens").get<double>(),
                     json.at("tokens").get<std::int64_t>());
  };
  const auto [one, tokens_of_one] = nats("a dog!<|endoftext|>");
  const auto [two, tokens_of_two] = nats("<|endoftext|>on mat 3");
  const auto [both, tokens] = nats("a dog!<|endoftext|>on mat 3");
  CHECK(tokens < 16);  // in one window
  CHECK(tokens == tokens_of_one + tokens_of_two);
  CHECK(both == Approx(one + two).epsilon(1e-5));
  CHECK(std::abs(nats("a dog!<|endoftext|>on mat 3", {"--no-isolate-documents"}).first - both) >
        1e-3);
}

TEST_CASE("a text without documents to keep apart is told", "[isolated-documents]") {
  const Stories short_stories;
  check_error_of("train-gpt",
                 train(tiny_run(short_stories.corpus, short_stories.folder / "characters", 2) +
                       Args{"--isolate-documents"}),
                 1, "--isolate-documents: the tokenizer has no token that ends documents");
  const auto single = short_stories.folder.put("single.txt", tiny_text());
  const Args args = tiny_run(single, short_stories.folder / "single", 1) +
                    Args{"--tokenizer", "bpe:270", "--isolate-documents"};
  const Result r = train(args);
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("note: single.txt is a single document, so that "
                                      "--isolate-documents keeps nothing apart"));
  const Result several = train(short_stories.args("several", 1));
  check_ended_well(several);
  CHECK(several.err.find("note:") == several.err.npos);
}
