#include <cmath>
#include <regex>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

bool matches(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern));
}

}  // namespace

TEST_CASE("bench step prints a step's time, rate and memory", "[bench]") {
  const Result r = run_program("bench", {"step", "char-cpu", "--steps", "3"});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK(matches(r.out, R"(tapegrad char-cpu f32: [0-9.]+ ms/step [0-9]+ tok/s peak [0-9]+ MB)"));
  CHECK(matches(r.out, R"([0-9.]+ GFLOP/s of the model, [0-9]+ % of the [0-9.]+ that gemm reaches )"
                       R"(at 768×512×128)"));
}

TEST_CASE("bench step times documents side by side", "[bench]") {
  const Result r =
      run_program("bench", {"step", "char-cpu", "--steps", "2", "--documents", "5..20"});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK(matches(r.out, R"(tapegrad char-cpu f32: [0-9.]+ ms/step)"));
  for (const std::string wrong : {"5", "5..4", "0..4", "a..b", "..", "5..20..30"}) {
    const Result refused = run_program("bench", {"step", "char-cpu", "--documents", wrong});
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, ContainsSubstring("'" + wrong + "' is not the least and the most"));
  }
}

TEST_CASE("bench step in bf16 and int8 says by what it is computed", "[bench]") {
  const std::string dtype = GENERATE("bf16", "int8");
  const Result r = run_program("bench", {"step", "char-cpu", "--steps", "2", "--dtype", dtype});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK(matches(
      r.out,
      dtype + R"( in the products of linear layers( and of the head)?, (by oneDNN|but) .*)"));
  CHECK(matches(r.out,
                "tapegrad char-cpu " + dtype + R"(: [0-9.]+ ms/step [0-9]+ tok/s peak [0-9]+ MB)"));
}

TEST_CASE("bench ops lists every op of a step with its share", "[bench]") {
  const Result r = run_program("bench", {"ops", "char-cpu", "--steps", "2"});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  for (const char* row : {R"(linear backward +\d+ +[0-9.]+ +[0-9.]+ GFLOP/s +[0-9.]+ %)",
                          R"(gelu +4 +[0-9.]+ +[0-9.]+ GB/s)", R"(attention_qkv backward +4 )",
                          R"(\(update\) +[0-9.]+)"}) {
    CHECK(matches(r.out, row));
  }
}

TEST_CASE("bench gemm lists the products of a step by each library", "[bench]") {
  const std::string dtype = GENERATE("f32", "int8");
  const Result r = run_program(
      "bench", {"gemm", "char-cpu", "--steps", "2", "--threads", "1", "--dtype", dtype});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  for (const char* row :
       {R"(m×n×k +calls +share +gemm +openblas 1 +onednn 1)",
        R"(NT 768×512×128 +4 +[0-9.]+ % +\d+ +(\d+|-) +(\d+|-))", R"(TN 512×128×768 +4 )",
        R"(A step takes [0-9.]+ ms: \d+ and \d+ % of it)"}) {
    INFO(row);
    CHECK(matches(r.out, row));
  }
}

TEST_CASE("bench generate shows prompt, text and the share of memory's rate", "[bench]") {
  const Args few = {"generate", "char-cpu", "--prompt", "9", "--tokens", "3", "--batch", "2"};
  for (const char* weights : {"f32", "bf16", "q8_0"}) {
    const Result r = run_program("bench", few + Args{"--weights", weights});
    INFO(r.out << r.err);
    CHECK(r.code == 0);
    CHECK(matches(r.out, std::string("char-cpu: weights ") + weights + ", [0-9.]+ MB"));
    CHECK(matches(r.out, R"(prompt: 2 × 9 tokens in [0-9.]+ s: [0-9,]+ tok/s)"));
    CHECK(matches(r.out, R"([0-9.]+ GB/s, [0-9]+ % of the [0-9.]+ GB/s)"));
  }
  const Result json = run_program("bench", few + Args{"--json"});
  CHECK(parse_json<Json>(json.out, 2).at("batch") == 2);
  const Result most = run_program("bench", {"generate", "char-cpu", "--prompt", "64"});
  CHECK(most.code == 1);
  CHECK_THAT(most.err, ContainsSubstring("do not fit into the 64"));
}

TEST_CASE("bench generate --ops shows where the time of a token goes", "[bench]") {
  const Args few = {"generate", "char-cpu", "--prompt",  "9", "--tokens",  "3",   "--batch",
                    "2",        "--ops",    "--threads", "2", "--weights", "q8_0"};
  const Result table = run_program("bench", few);
  INFO(table.out << table.err);
  CHECK(table.code == 0);
  CHECK(matches(table.out, "text: 2 × 3 tokens"));
  CHECK(matches(table.out, R"(of all 2 threads, of 3 steps)"));
  // Four blocks, one choice and one head for all texts of a step.
  for (const char* row :
       {"queries, keys, values +4", "attention's projection +4", "feed-forward +8", "head +1",
        "attention +4", "storing keys, values +4", "norms +9", "activation +4", "embedding +2",
        "choice of token +1", "waiting +0 +0.0"}) {
    INFO(row);
    CHECK(matches(table.out, std::string("\n  ") + row + R"( +[0-9.]+ +)"));
  }
  CHECK_FALSE(matches(table.out, "other products"));
  const auto json = parse_json<Json>(run_program("bench", few + Args{"--json"}).out, 3);
  double share = 0, clock = 0;
  for (const Json& row : json.at("ops")) {
    share += row.at("share").get<double>();
    clock += row.at("clock_us").get<double>();
  }
  CHECK(std::abs(share - 1) < 1e-6);
  CHECK(clock > 0);
  const Result off =
      run_program("bench", {"generate", "char-cpu", "--prompt", "9", "--tokens", "3"});
  CHECK_FALSE(matches(off.out, "waiting"));
  const Result refused = run_program("bench", {"ops", "char-cpu", "--ops"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("--ops is for bench generate"));
}

TEST_CASE("bench says what it can time", "[bench]") {
  const auto refused = [](const Args& args, const std::string& text) {
    const Result r = run_program("bench", args);
    INFO(r.out << r.err);
    CHECK(r.code == 2);
    CHECK_THAT(r.err, ContainsSubstring(text));
  };
  refused({}, "say what to time");
  refused({"step"}, "say what to time");
  refused({"step", "gpt9"}, "there is no configuration 'gpt9'");
  refused({"walk", "char"}, "'walk' is none of step, ops, gemm and generate");
  refused({"step", "char-cpu", "--steps", "0"}, "--steps");
  refused({"step", "char-cpu", "--dtype", "f16"}, "--dtype");
  const Result help = run_program("bench", {"--help"});
  CHECK(help.code == 0);
  CHECK_THAT(help.out, ContainsSubstring("gpt2-b1t1024"));
}
