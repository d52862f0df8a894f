// --profile of the training programs, and bench ops --trace.

#include <nlohmann/json.hpp>

#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

using TraceJson = nlohmann::json;

struct Span {
  double begin, end;
};

// The spans of the first row, with the names of those around each: "step/forward/h.0/linear". Fails
// where spans overlap without one being inside the other, which viewers cannot draw.
std::vector<std::string> nested(const TraceJson& trace) {
  std::vector<std::pair<Span, std::string>> spans;
  for (const TraceJson& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X" || e.at("tid") != 0) continue;
    const double begin = e.at("ts").get<double>();
    spans.push_back({{begin, begin + e.at("dur").get<double>()}, e.at("name")});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return a.first.begin != b.first.begin ? a.first.begin < b.first.begin
                                          : a.first.end > b.first.end;
  });
  constexpr double rounding = 0.002;
  std::vector<std::pair<Span, std::string>> open;
  std::vector<std::string> result;
  for (const auto& [span, name] : spans) {
    while (!open.empty() && open.back().first.end <= span.begin + rounding) open.pop_back();
    if (!open.empty()) CHECK(span.end <= open.back().first.end + rounding);
    std::string path;
    for (const auto& outer : open) path += outer.second + "/";
    result.push_back(path + name);
    open.push_back({span, name});
  }
  return result;
}

bool has(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

TraceJson read(const std::filesystem::path& path) {
  return TraceJson::parse(TempFolder::get(path));
}

}  // namespace

TEST_CASE("--profile traces some steps, and changes nothing else", "[trace]") {
  const TinyRun plain(10);
  const std::string file = plain.folder / "trace.json";
  const Result r = train(tiny_run(plain.corpus, plain.folder / "traced", 10) +
                         Args{"--profile", file, "--profile-steps", "3"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("trace of 3 steps: " + file));
  CHECK(same_model(plain.run, plain.folder / "traced"));
  CHECK(TempFolder::get(plain.folder / "traced" / "config.json").find("profile") ==
        std::string::npos);
  const TraceJson trace = read(file);
  const std::vector<std::string> spans = nested(trace);
  CHECK(std::count(spans.begin(), spans.end(), "step") == 3);
  CHECK(std::count(spans.begin(), spans.end(), "step/update") == 3);
  CHECK(has(spans, "step/norm of the gradients"));
  CHECK(std::count(spans.begin(), spans.end(), "step/forward/h.1") == 3);
  CHECK(has(spans, "step/forward/h.1/linear"));
  CHECK(has(spans, "step/backward/h.0/linear backward"));
  int linear = 0;
  for (const TraceJson& e : trace.at("traceEvents")) {
    if (e.at("name") != "linear" || e.at("tid") != 0) continue;
    ++linear;
    CHECK(e.at("args").contains("module"));
    CHECK(e.at("args").at("GFLOP/s") >= 0);  // it rounds to 0 where the processor had other work
    CHECK(e.at("args").at("bytes") > 0);
  }
  CHECK(linear == 3 * 2 * 4);
}

TEST_CASE("a run that ends early leaves a trace of the steps that it made", "[trace]") {
  const TempFolder folder;
  const std::string file = folder / "trace.json";
  const TinyRun run(4, {"--profile", file});
  CHECK(nested(read(file)).front() == "step");
  const Args none = {"--profile", folder / "none.json"};
  const Result r = train(tiny_run(run.corpus, folder / "short", 2) + none);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("note: no trace: this call made 2 steps"));
  CHECK_FALSE(std::filesystem::exists(folder / "none.json"));
}

TEST_CASE("a trace names modules that are frozen, too", "[trace]") {
  const TinyRun base(2);
  const std::string file = base.folder / "trace.json";
  check_ended_well(train(tiny_run(base.corpus, base.folder / "tuned", 4) +
                         Args{"--init-from", base.run, "--lora-rank", "2", "--lora-target",
                              "h.1.attn.c_proj", "--profile", file}));
  const std::vector<std::string> spans = nested(read(file));
  CHECK(has(spans, "step/forward/h.0/linear"));
  CHECK(has(spans, "step/forward/wte/gather_rows"));
}

TEST_CASE("--profile-steps without --profile is told", "[trace]") {
  const TempFolder folder;
  const Result r = train({folder.put("text.txt", tiny_text()), "--profile-steps", "3"});
  check_error_of("train-gpt", r, 2, "--profile-steps is for --profile FILE");
}

TEST_CASE("a trace that cannot be written does not end the run", "[trace]") {
  const TempFolder folder;
  const std::string corpus = folder.put("text.txt", tiny_text());
  const Result r = train(tiny_run(corpus, folder / "run", 10) +
                         Args{"--profile", folder / "no" / "such" / "folder.json"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("note: no trace: "));
}

TEST_CASE("bench ops --trace writes one", "[trace]") {
  const TempFolder folder;
  const std::string file = folder / "trace.json";
  const Result r = run_program("bench", {"ops", "char-cpu", "--steps", "2", "--trace", file});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  const std::vector<std::string> spans = nested(read(file));
  CHECK(has(spans, "step/forward/h.3/attention_qkv"));
  const Result step = run_program("bench", {"step", "char-cpu", "--trace", file});
  CHECK(step.code == 2);
  CHECK_THAT(step.err, ContainsSubstring("--trace is for bench ops"));
}
