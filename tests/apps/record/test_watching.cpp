// The output of train-gpt while it trains, and before.

#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

// The lines of metrics.jsonl that have a sample.
std::vector<std::string> samples(const std::filesystem::path& run) {
  std::vector<std::string> lines;
  const std::string text = TempFolder::get(run / "metrics.jsonl");
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (line.find("\"sample\":") != line.npos) lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("--sample-interval shows samples and keeps them, and changes nothing else",
          "[watching]") {
  const Args every = {"--sample-interval", "4", "--sample-prompt", "the dog"};
  const TinyRun plain(10);
  const Result r = train(tiny_run(plain.corpus, plain.folder / "watched", 10) + every);
  check_ended_well(r);
  CHECK(same_model(plain.run, plain.folder / "watched"));
  CHECK_THAT(r.out, ContainsSubstring("\nsample at step 4:\nthe dog") &&
                        ContainsSubstring("\nsample at step 8:\nthe dog"));
  CHECK(r.out.find("sample at step 0") == r.out.npos);
  const auto lines = samples(plain.folder / "watched");
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], ContainsSubstring("\"iteration\":4") && ContainsSubstring("\"the dog"));
  CHECK_THAT(lines[1], ContainsSubstring("\"iteration\":8"));
  CHECK(samples(plain.run).empty());
}

TEST_CASE("a resume makes the same samples, each once", "[watching]") {
  const Args every = {"--sample-interval", "5"};
  const TinyRun whole(20, every);
  const auto parts = whole.folder / "parts";
  // It ends at a step that has a sample, which is not printed again at the end.
  const Result ended = train(tiny_run(whole.corpus, parts, 10) + every + Args{"--sample"});
  check_ended_well(ended);
  CHECK_THAT(ended.out, ContainsSubstring("sample at step 10:") && !ContainsSubstring("\nsample:"));
  CHECK(samples(parts).size() == 2);
  const Result r = train(resume_run(parts, 20));
  check_ended_well(r);
  CHECK(r.err.empty());
  CHECK(samples(parts) == samples(whole.run));
  CHECK(samples(parts).size() == 4);
}

TEST_CASE("wrong uses of --sample-interval are said", "[watching]") {
  check_error_of("train-gpt", train({"--sample-interval", "0"}), 2, "--sample-interval");
  check_error_of("train-gpt", train({"--sample-prompt", "a"}), 2,
                 "--sample-prompt needs --sample-interval or --batches epochs");
}

TEST_CASE("--help shows the defaults of the preset that is named", "[watching]") {
  const auto line = [](const Args& args, const std::string& option) {
    const Result r = train(args + Args{"--help"});
    REQUIRE(r.code == 0);
    const std::size_t begin = r.out.find("  --" + option + " ");
    REQUIRE(begin != r.out.npos);
    return r.out.substr(begin, r.out.find("]", begin) + 1 - begin);
  };
  CHECK_THAT(line({}, "n-layer"), ContainsSubstring("[4]"));
  CHECK_THAT(line({"--preset", "gpt2-124m"}, "n-layer"), ContainsSubstring("[12]"));
  CHECK_THAT(line({"--preset", "gpt2-124m"}, "tokenizer"), ContainsSubstring("[gpt2]"));
  CHECK_THAT(line({"--preset", "char"}, "batch-size"), ContainsSubstring("[64]"));
  CHECK_THAT(line({"--preset", "char", "--batch-size", "5"}, "batch-size"),
             ContainsSubstring("[5]"));
}

TEST_CASE("nanoGPT's --init_from=gpt2 says what to do instead", "[watching]") {
  for (const std::string name : {"gpt2", "gpt2-medium", "gpt2-xl"}) {
    check_error_of("train-gpt", train({"--init_from=" + name}), 2,
                   "nothing is downloaded here. Get OpenAI's weights as a folder");
  }
  check_error_of("train-gpt", train({"--init-from", "gpt2"}), 2, "--init-from PATH");
}
