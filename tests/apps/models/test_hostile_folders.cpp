// Run folders that somebody else has made: nothing in them leads out of them.

#include <algorithm>

#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/apps/unprivileged.h"

namespace fs = std::filesystem;

namespace {

// A run, and beside its folder a file that is none of its business.
struct HostileRun : TinyRun {
  fs::path precious;
  HostileRun()
      : TinyRun(6, {"--layer-stats", "2"}), precious(folder.put("precious.txt", "mine\n")) {}

  // Puts a symbolic link in the place of a file of the run, which moves out of the folder.
  void make_link(const std::string& name) const {
    const fs::path outside = folder / ("outside-" + name);
    fs::rename(run / name, outside);
    fs::create_symlink(outside, run / name);
  }
  Result resume() const {
    return run_unprivileged("train-gpt", resume_run(run, 8) + Args{"--no-sample"}, folder.path());
  }
};

void check_refused(const Result& r, const std::string& name) {
  INFO(r.out << r.err);
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring(name));
  CHECK_THAT(r.err, ContainsSubstring("symbolic link"));
}

}  // namespace

TEST_CASE("a resume does not write through a link in the run folder", "[hostile]") {
  const HostileRun hostile;
  fs::remove(hostile.run / "metrics.jsonl");
  fs::create_symlink("../precious.txt", hostile.run / "metrics.jsonl");
  check_refused(hostile.resume(), "metrics.jsonl");
  CHECK(TempFolder::get(hostile.precious) == "mine\n");
}

TEST_CASE("a resume does not write to a file that has a name outside as well", "[hostile]") {
  const std::string name = GENERATE("metrics.jsonl", "layers.jsonl", "sessions.jsonl");
  const HostileRun hostile;
  fs::remove(hostile.run / name);
  const std::string lines = "{\"iteration\":0,\"first_step\":0}\n";
  std::ofstream(hostile.precious) << lines;
  fs::create_hard_link(hostile.precious, hostile.run / name);
  check_ended_well(hostile.resume());
  CHECK(TempFolder::get(hostile.precious) == lines);
}

TEST_CASE("no file of a run may be a link", "[hostile]") {
  const std::string name =
      GENERATE("config.json", "tokenizer.json", "model.safetensors", "optimizer.safetensors",
               "trainer.json", "metrics.jsonl", "layers.jsonl", "sessions.jsonl");
  const HostileRun hostile;
  hostile.make_link(name);
  const std::string before = TempFolder::get(hostile.folder / ("outside-" + name));
  check_refused(hostile.resume(), name);
  CHECK(TempFolder::get(hostile.folder / ("outside-" + name)) == before);
  if (name == "config.json" || name == "tokenizer.json" || name == "model.safetensors") {
    check_refused(run_unprivileged("sample-text", {"--model", hostile.run}, hostile.folder.path()),
                  name);
  }
}

TEST_CASE("the checkpoint of another run is not moved into one that links to it", "[hostile]") {
  const HostileRun hostile;
  const fs::path other = hostile.folder / "other";
  fs::create_directory(other);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "trainer.json"}) {
    fs::copy(hostile.run / name, other / name);
  }
  fs::create_symlink(other, hostile.run / "checkpoint.ready");
  const Result r = hostile.resume();
  INFO(r.out << r.err);
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring("checkpoint.ready is not a folder of a run"));
  CHECK(std::distance(fs::directory_iterator(other), {}) == 3);
}

TEST_CASE("--overwrite replaces links, and not what they lead to", "[hostile]") {
  const HostileRun hostile;
  for (const char* name :
       {"config.json", "metrics.jsonl", "layers.jsonl", "sessions.jsonl", "model.safetensors"}) {
    fs::remove(hostile.run / name);
    fs::create_symlink(hostile.precious, hostile.run / name);
  }
  const Args args = tiny_run(hostile.corpus, hostile.run, 2);
  check_ended_well(
      run_unprivileged("train-gpt", args + Args{"--overwrite"}, hostile.folder.path()));
  CHECK(TempFolder::get(hostile.precious) == "mine\n");
  CHECK_FALSE(fs::is_symlink(hostile.run / "metrics.jsonl"));
  CHECK_FALSE(fs::is_symlink(hostile.run / "layers.jsonl"));
  CHECK_FALSE(fs::is_symlink(hostile.run / "sessions.jsonl"));
}

TEST_CASE("what multiplied must be short and plain text", "[hostile]") {
  const HostileRun hostile;
  const std::string text = hostile.file("trainer.json"), by = "\"multiplier\": \"";
  const std::size_t at = text.find(by) + by.size();
  REQUIRE(at > by.size());
  const auto with = [&](const std::string& more) {
    std::ofstream(hostile.run / "trainer.json") << text.substr(0, at) + more + text.substr(at);
    return hostile.resume();
  };
  for (const std::string& more : {std::string("\\u001b[31m"), std::string("\u009b31m"),
                                  std::string("\\u007f"), std::string(2000, 'x')}) {
    const Result r = with(more);
    INFO(r.out << r.err);
    CHECK(r.code == 1);
    CHECK_THAT(r.err, ContainsSubstring("trainer.json: 'multiplier' must have at most"));
  }
  check_ended_well(with("3×4×5 "));
}

TEST_CASE("a line of metrics that cannot be read takes no other with it", "[hostile]") {
  const HostileRun hostile;
  std::string lines = hostile.file("metrics.jsonl");
  const std::size_t second = lines.find('\n') + 1;
  const std::string deep(100'000, '[');  // which ended the program while it was parsed
  lines.insert(second, "{\"iter\xFF\n{\"iteration\": " + deep + "\n");
  std::ofstream(hostile.run / "metrics.jsonl") << lines;
  const Result r = hostile.resume();
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("metrics.jsonl: 2 lines without a readable iteration"));
  const std::string after = hostile.file("metrics.jsonl");
  CHECK(after.find("{\"iter\xFF") == std::string::npos);
  CHECK_THAT(after, ContainsSubstring("\"iteration\":5"));
  CHECK(std::count(after.begin(), after.end(), '\n') >
        std::count(lines.begin(), lines.end(), '\n') - 1);
}

TEST_CASE("a line of sessions that a kill cut short is left out on resume", "[hostile]") {
  const HostileRun hostile;
  const std::string first = hostile.file("sessions.jsonl");
  std::ofstream(hostile.run / "sessions.jsonl", std::ios::app) << "nonsense\n{\"first_step\":3,";
  const Result r = hostile.resume();
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("sessions.jsonl: 1 line without a readable first_step"));
  const std::string after = hostile.file("sessions.jsonl");
  CHECK(after.starts_with(first + "{\"first_step\":6,"));
  CHECK(std::count(after.begin(), after.end(), '\n') == 4);
}

TEST_CASE("a file of layers may have any size when a run is resumed", "[hostile]") {
  const HostileRun hostile;
  const std::string first = hostile.file("layers.jsonl");
  fs::resize_file(hostile.run / "layers.jsonl", (std::uintmax_t{4} << 30) + 4096);  // sparse
  std::ofstream(hostile.run / "layers.jsonl", std::ios::app) << "\n{\"iteration\":5}\n";
  const Result r = hostile.resume();
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("layers.jsonl: 1 line without a readable iteration"));
  CHECK(hostile.file("layers.jsonl").starts_with(first + "{\"iteration\":5}\n"));
}
