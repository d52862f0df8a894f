// The options that choose threads and libraries, and the programs' words about them.

#include <fstream>
#include <regex>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/tests/apps/tiny_runs.h"

TEST_CASE("dtype auto becomes f32 or bf16, which the header names, and a resume keeps it",
          "[train-gpt]") {
  const TinyRun chosen(4, {"--dtype", "auto"});
  const std::string config = TempFolder::get(chosen.run / "config.json");
  CHECK(config.find("\"auto\"") == std::string::npos);
  CHECK_THAT(config, ContainsSubstring("\"dtype\": \"f32\""));  // its products are small
  CHECK(same_model(chosen.run, TinyRun(4, {"--dtype", "f32"}).run));
  const Result resumed = train(resume_run(chosen.run, 6) + Args{"--dtype", "auto"});
  check_ended_well(resumed);
  CHECK_THAT(resumed.out, ContainsSubstring("\ndtype:   f32\n"));
  CHECK_THAT(chosen.file("config.json"), ContainsSubstring("\"dtype\": \"f32\""));
}

TEST_CASE("--verbose says what multiplies and how much of the processor that uses", "[train-gpt]") {
  const CorpusAndRun files("text.txt", tiny_text());
  const Result r =
      train(tiny_run(files.corpus, files.run, 0) + Args{"--gemm", "openblas", "--verbose"});
  INFO(r.out << r.err);
  // What it can do at most is known of processors with AVX2.
  const std::string most = tapegrad::fma_rate() > 0 ? R"( of at most \d+)" : "";
  CHECK(std::regex_search(r.out, std::regex(R"(compute: OpenBLAS \S+, \w+ kernels.*; \d+)" + most +
                                            " GFLOP/s a thread; ")));
}

TEST_CASE("a resume by another library says that bits will differ", "[train-gpt]") {
  const TinyRun run(2, {"--gemm", "openblas"});
  const std::string trainer = TempFolder::get(run.run / "trainer.json");
  const std::string by = "\"multiplier\":", before = "OpenBLAS";
  REQUIRE(trainer.find(by) != std::string::npos);
  const Result same = train(resume_run(run.run, 3) + Args{"--gemm", "openblas"});
  CHECK_THAT(same.out, !ContainsSubstring("multiplied so far"));
  std::string other = TempFolder::get(run.run / "trainer.json");
  other.replace(other.find(before, other.find(by)), before.size(), "OtherBLAS");
  std::ofstream(run.run / "trainer.json") << other;
  const Result r = train(resume_run(run.run, 4) + Args{"--gemm", "openblas"});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("note: OtherBLAS"));
  CHECK_THAT(r.out, ContainsSubstring("multiplied so far, and now OpenBLAS"));
}
