// What --plan predicts for several processes, beside what they count.

#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/tests/apps/on_processes.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

// The number that a program prints at that place.
double printed(const Result& r, const std::string& pattern) {
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
  std::smatch found;
  REQUIRE(std::regex_search(r.out, found, std::regex(pattern)));
  return std::stod(found[1]);
}

// A machine that nobody has, so that each machine prints the same.
const Args kAssumed = {"--plan",    "--preset", "char-cpu",    "--gflops", "1000",
                       "--threads", "8",        "--bandwidth", "10Gbit"};

}  // namespace

TEST_CASE("two processes send as many bytes as --plan says", "[plan][processes]") {
  if (!have_processes()) return;
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const Args wide = {"--n-embd",    "512", "--block-size",    "8",  "--batch-size", "1",
                     "--max-iters", "4",   "--eval-interval", "100"};
  int number = 0;
  for (const Args& way :
       {Args{}, Args{"--comm-dtype", "bf16"}, Args{"--gradient-accumulation-steps", "4"},
        Args{"--local-steps", "4"}, Args{"--local-steps", "4", "--comm-dtype", "bf16"},
        Args{"--local-steps", "4", "--comm-dtype", "int8"}}) {
    const auto run = folder / std::to_string(++number);
    const Args args = tiny_run(corpus, run, 4) + wide + way;
    const double predicted =
        printed(train(args + kAssumed + Args{"--preset", "char-cpu", "--ranks", "2"}),
                "each rank sends .*?([0-9.]+) MB in a step");
    const double sent =
        printed(on_processes(2, "train-gpt", args), "each of 2 processes sent ([0-9.]+) MB a step");
    INFO((way.empty() ? "as it is" : way.front()) << ": " << predicted << ", in truth " << sent);
    CHECK(sent > 1);
    CHECK_THAT(predicted, Catch::Matchers::WithinAbs(sent, 0.11 + 0.01 * sent));
  }
}

TEST_CASE("--plan compares ways to share a step, and numbers of ranks", "[plan]") {
  const Args eight = kAssumed + Args{"--ranks", "8"};
  const Result r = train(eight + Args{"--local-steps", "20", "--comm-dtype", "bf16"});
  check_ended_well(r);
  for (const char* text :
       {"predicted: ", "by --gflops 1000 and 8 threads", "forecast:  8 ranks, 10Gbit and 50us",
        "ms per step if nothing were", "at a meeting, every 20 steps: ",
        "ways:      each step in f32 ", "           each step in bf16 ",
        "           --shard parameters in f32 ", "           --local-steps 20 --comm-dtype int8 ",
        "\nfastest:   ", "\nsplit:     ", "scaling:   ranks  each step in f32 "}) {
    CHECK_THAT(r.out, ContainsSubstring(text));
  }
  CHECK_THAT(r.out, !ContainsSubstring("measuring:"));
  CHECK(train(eight + Args{"--local-steps", "20", "--comm-dtype", "bf16"}).out == r.out);
  std::vector<int> ranks;
  std::istringstream rows(r.out.substr(r.out.find("scaling:")));
  for (std::string line; std::getline(rows, line);) {
    if (std::smatch row; std::regex_match(line, row, std::regex(" +([0-9]+)  .* [kMG]?B")))
      ranks.push_back(std::stoi(row[1]));
  }
  CHECK(ranks == std::vector<int>{1, 2, 4, 8});
  // Each rank of eight has one batch of eight, and so has the first row's.
  const Result shared = train(eight + Args{"--gradient-accumulation-steps", "8"});
  CHECK(printed(shared, "\n +1  +0 +[0-9,]+ +([0-9.]+) ") == 1);
  // On a line that is slow, or to far away, fewer meetings are faster.
  CHECK_THAT(train(eight + Args{"--bandwidth", "10Mbit"}).out,
             ContainsSubstring("fastest:   --local-steps 50 --comm-dtype int8, "));
  CHECK_THAT(train(eight + Args{"--bandwidth", "1000Gbit", "--batch-size", "4096"}).out,
             ContainsSubstring("fastest:   each step in f32: no other way is"));
  CHECK_THAT(train(eight + Args{"--skip-outliers", "3"}).out, !ContainsSubstring("--local-steps"));
  CHECK_THAT(train(eight + Args{"--ema", "0.9"}).out, !ContainsSubstring("--shard parameters"));
}

TEST_CASE("--plan counts what ranks share out", "[plan]") {
  const Args eight = kAssumed + Args{"--preset", "gpt2-124m", "--dtype", "f32", "--ranks", "8"};
  const auto memory = [&](const Args& how) {
    return printed(train(eight + how), "([0-9.]+) MB of tensors at once in each rank");
  };
  const double weights = 498;  // all of them, in MB
  const double gradients = memory({}), parameters = memory({"--shard", "parameters"});
  CHECK(memory({"--shard", "moments"}) == gradients);
  // Weights and a part of two moments and gradients; of weights, those of no block and few others.
  CHECK(gradients > weights + 3 * weights / 8);
  CHECK(parameters < gradients - 50);
  CHECK_THAT(train(eight + Args{"--shard", "parameters"}).out,
             ContainsSubstring("scaling:   ranks  --shard parameters in f32 "));
}

TEST_CASE("--plan says what it does not count for a machine that it does not measure", "[plan]") {
  CHECK_THAT(train(kAssumed).out, !ContainsSubstring("uncounted:"));
  const std::vector<std::pair<Args, std::string>> all = {
      {{"--optimizer", "soap"}, "the products of SOAP's updates"},
      {{"--optimizer", "muon"}, "the products of Muon's updates"},
      {{"--ema", "0.99"}, "the averages of --ema"},
      {{"--freeze", "wte*"}, "what frozen weights save in backward"},
      {{"--ema", "0.99", "--freeze", "wte*"},
       "the averages of --ema; what frozen weights save in backward"}};
  for (const auto& [args, cost] : all) {
    CHECK_THAT(train(kAssumed + args).out, ContainsSubstring("uncounted: " + cost + "\n"));
  }
}

TEST_CASE("--plan refuses ranks and local steps that no run has", "[plan]") {
  for (const char* ranks : {"0", "4097"}) {
    INFO(ranks);
    const Result r = train(kAssumed + Args{"--ranks", ranks});
    CHECK(r.code == 2);
    CHECK_THAT(r.err, ContainsSubstring("--ranks: must be from 1 to 4096, not "));
  }
  const Args few = {"--max-iters", "20", "--local-steps", "50"};
  const std::string meets = "--local-steps 50: a run of 20 steps is over before its processes meet";
  check_error_of("train-gpt", train(kAssumed + Args{"--ranks", "2"} + few), 2, meets);
  const TempFolder folder;
  check_error_of("train-gpt",
                 train(tiny_run(folder.put("text.txt", tiny_text()), folder / "run", 20) + few), 2,
                 meets);
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
  check_ended_well(
      train(kAssumed + Args{"--ranks", "2", "--max-iters", "0", "--local-steps", "5"}));
}

TEST_CASE("the script of docs/scaling.md makes a table of what --plan predicts", "[plan]") {
  const std::string script =
      (std::filesystem::path(tapegrad::places::kSources) / "scripts/scaling_table.sh").string();
  const std::string program =
      "TAPEGRAD=" + (std::filesystem::path(tapegrad::places::kPrograms) / "tapegrad").string();
  const Args small = {"--preset", "char-cpu", "--block-size", "64"};
  const Result r = run_program("/usr/bin/env", Args{program, "bash", script, "4"} + small);
  check_ended_well(r);
  std::vector<std::string> lines;
  std::istringstream text(r.out);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  REQUIRE(lines.size() == 5);
  const std::string number = "[0-9.e+-]+", size = "[0-9.]+ [kMG]?B";
  const std::string way = size + R"( \| )" + size + R"( \| )" + number + R"( \| )" + number;
  CHECK(std::regex_match(lines[4], std::regex(R"(\| 4 \| )" + way + R"( \| )" + way + R"( \|)")));
  CHECK_THAT(lines[2], ContainsSubstring("| 1 | 0 | "));
}
