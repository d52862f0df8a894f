// Where train-gpt finds its text.

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/places.h"

namespace {

// Without the --corpus that they begin with.
Args tiny_options(const std::filesystem::path& out_dir, int max_iters) {
  const Args all = tiny_run("", out_dir, max_iters);
  return {all.begin() + 2, all.end()};
}

}  // namespace

TEST_CASE("a path by itself is a corpus", "[corpus-options]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const std::vector<std::string> paths = {corpus.string()};
  CHECK(parsed(Args{corpus} + tiny_options(folder / "run", 5)).text.corpus == paths);
  CHECK(parsed(tiny_run(corpus, folder / "same", 5)).text.corpus == paths);
  CHECK(parsed(Args{"b", "--corpus", corpus, "--seed", "3"}).text.corpus.size() == 2);
}

TEST_CASE("a text from stdin is kept for a resume", "[corpus-options]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const Args args = Args{"-"} + tiny_options(folder / "run", 5);
  check_ended_well(Program("train-gpt", args, ".", corpus).wait());
  check_ended_well(train(resume_run(folder / "run", 8)));
  check_ended_well(train(tiny_run(corpus, folder / "same", 8)));
  CHECK(same_model(folder / "run", folder / "same"));
  check_unparsed(Args{"-", corpus} + tiny_options(folder / "x", 5), 2,
                 "- (stdin) cannot be read beside other texts");
  check_error_of("train-gpt", train(Args{"-"} + tiny_options(folder / "x", 5)), 1, "'-' is empty");
}

TEST_CASE("what is left out of a folder is said", "[corpus-options]") {
  const TempFolder folder;
  folder.put("in/text.jsonl", "{\"story\": \"caf\xC3\xA9\"}\n");
  folder.put("in/old.txt", "caf\xE9\n");
  folder.put("in/text.txt", tiny_text());
  const Result r = train(Args{folder / "in", "--field", "story"} + tiny_options(folder / "run", 5));
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("old.txt is left out: it is not UTF-8 text: byte 3 is 0xe9"));
  check_ended_well(train(resume_run(folder / "run", 8)));
  const Result latin =
      train(Args{folder / "in/old.txt", folder / "in/text.txt", "--encoding", "latin-1"} +
            tiny_options(folder / "latin", 5));
  check_ended_well(latin);
}

#ifndef TAPEGRAD_SANITIZED  // which takes more addresses than any limit
TEST_CASE("a text that there is no memory for is refused by its name", "[corpus-options]") {
  const TempFolder folder;
  const auto corpus = folder.put("large.txt", std::string(100 << 20, 'a'));
  const std::filesystem::path err = folder / "err";
  std::string command = "ulimit -v 600000; timeout 60 " + quoted_program("train-gpt");
  for (const auto& arg : tiny_run(corpus, folder / "run", 1)) command += " " + quoted(arg);
  CHECK(std::system((command + " --threads 1 2>" + quoted(err)).c_str()) != 0);
  CHECK_THAT(TempFolder::get(err), ContainsSubstring("large.txt") &&
                                       ContainsSubstring("that ulimit -v allows are available") &&
                                       ContainsSubstring("tapegrad prepare"));
}
#endif
