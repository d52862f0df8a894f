// The files for Slurm and Kubernetes, as far as one machine can tell.

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>

#include "tapegrad/tests/apps/on_processes.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

namespace fs = std::filesystem;

const fs::path kCluster = fs::path(tapegrad::places::kSources) / "examples/cluster";

// A node of Slurm, whose programs write down how they were called.
struct Node {
  TempFolder folder;
  fs::path run = folder / "run";

  // The training keeps a checkpoint of that step, if there is one, and ends with that code.
  Result submit(int code, std::optional<int> step, const Args& options) const {
    fs::create_directories(run);
    if (step) folder.put("kept.json", "{\n  \"iteration\": " + std::to_string(*step) + ",\n");
    const std::string keep =
        step ? "cp '" + (folder / "kept.json").string() + "' '" + trainer() + "'; " : "";
    add("srun", "echo srun \"$@\" >>'" + calls() + "'; shift 3; \"$@\"");
    add("train", keep + "exit " + std::to_string(code));
    add("scontrol", "echo scontrol \"$@\" >>'" + calls() + "'");
    const Args environment = {"PATH=" + folder.path().string() + ":/usr/bin:/bin",
                              "TAPEGRAD=" + (folder / "train").string(), "SLURM_JOB_ID=77",
                              "SLURM_CPUS_PER_TASK=5"};
    return Program("/usr/bin/env", environment + Args{"bash", kCluster / "slurm.sh", run} + options)
        .wait();
  }
  std::string called() const { return TempFolder::get(folder / "calls"); }
  std::string trainer() const { return (run / "trainer.json").string(); }

 private:
  std::string calls() const { return (folder / "calls").string(); }
  void add(const std::string& name, const std::string& body) const {
    fs::permissions(folder.put(name, "#!/bin/sh\n" + body + "\n"), fs::perms::all);
  }
};

// The text that the launcher of the MPI operator's job runs.
std::string launcher_text() {
  std::istringstream lines(TempFolder::get(kCluster / "mpijob.yaml"));
  const std::string begin = "                - |", indent(begin.size() - 1, ' ');
  std::string text;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (inside && !line.starts_with(indent)) break;
    if (inside) text += line.substr(indent.size()) + "\n";
    inside = inside || line == begin;
  }
  return text;
}

}  // namespace

TEST_CASE("a job of Slurm starts a run, and goes on with one that has a checkpoint", "[cluster]") {
  const Node node;
  CHECK(node.submit(0, 4, {"--corpus", "two words"}).code == 0);
  const std::string srun = "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=5 " +
                           (node.folder / "train").string() + " train --out-dir " +
                           node.run.string();
  const std::string begun = srun + " --corpus two words\n",
                    resumed = srun + " --init-from resume\n";
  CHECK(node.called() == begun);
  CHECK(node.submit(0, 8, {"--corpus", "two words"}).code == 0);
  CHECK(node.called() == begun + resumed);
  // A checkpoint whose files have not moved to their places.
  fs::create_directory(node.run / "checkpoint.ready");
  fs::rename(node.trainer(), node.run / "checkpoint.ready/trainer.json");
  CHECK(node.submit(0, std::nullopt, {"--corpus", "two words"}).code == 0);
  CHECK(node.called() == begun + resumed + resumed);
}

TEST_CASE("a job of Slurm begins a run anew that was lost before its first checkpoint",
          "[cluster]") {
  const Node lost, model;
  for (const Node* node : {&lost, &model}) node->folder.put("run/config.json", "{}\n");
  CHECK(lost.submit(0, std::nullopt, {"--seed", "2"}).code == 0);
  CHECK_THAT(lost.called(), ContainsSubstring(" --seed 2 --overwrite\n"));
  // Weights are not replaced: they may be all that somebody keeps.
  model.folder.put("run/model.safetensors", "weights");
  CHECK(model.submit(0, std::nullopt, {"--seed", "2"}).code == 0);
  CHECK_THAT(model.called(), ContainsSubstring(" --seed 2\n"));
}

TEST_CASE("a job of Slurm that was ended is queued again if its checkpoint has moved on",
          "[cluster]") {
  const auto queued = [](const Node& node) {
    const std::string calls = node.called();
    int times = 0;
    for (auto at = calls.find("scontrol requeue 77"); at != std::string::npos;
         at = calls.find("scontrol", at + 1)) {
      ++times;
    }
    return times;
  };
  const Node lost;
  CHECK(lost.submit(130, 4, {}).code == 130);
  CHECK(queued(lost) == 1);
  // Nor does a checkpoint count that was there before, or that is of the same step.
  CHECK(lost.submit(1, std::nullopt, {}).code == 1);
  CHECK(lost.submit(1, 4, {}).code == 1);
  CHECK(queued(lost) == 1);
  CHECK(lost.submit(137, 10, {}).code == 137);
  CHECK(queued(lost) == 2);
  CHECK(lost.submit(0, 12, {}).code == 0);
  CHECK(queued(lost) == 2);
  const Node wrong;
  CHECK(wrong.submit(1, std::nullopt, {}).code == 1);
  CHECK(wrong.submit(1, 0, {}).code == 1);
  CHECK(queued(wrong) == 0);
  const Result usage = Program("/usr/bin/env", {"bash", kCluster / "slurm.sh"}).wait();
  CHECK(usage.code == 2);
  CHECK_THAT(usage.err, ContainsSubstring("sbatch --nodes 4"));
}

TEST_CASE("the launcher of the MPI operator's job trains, and resumes what it finds", "[cluster]") {
  if (!have_processes()) return;
  processes_args(2, "train-gpt", {});  // sets what mpirun needs as root
  const TempFolder folder;
  const fs::path corpus = folder.put("text.txt", tiny_text());
  std::string options;
  for (const std::string& arg : tiny_run(corpus, folder / "run", 4)) options += arg + " ";
  const std::string hosts = folder.put("hostfile", "localhost slots=2\n");
  const std::string text = replaced(launcher_text(), "/etc/mpi/hostfile", hosts);
  REQUIRE_THAT(text, ContainsSubstring("mpirun --hostfile " + hosts));
  const auto launch = [&](const std::string& given) {
    const Args environment = {
        "PATH=" + std::string(tapegrad::places::kPrograms) + ":" + std::getenv("PATH"),
        "OUT=" + (folder / "run").string(), "OPTIONS=" + given, "WORKERS=2", "THREADS=1"};
    const Result r = Program("/usr/bin/env", environment + Args{"bash", "-euc", text}).wait();
    check_ended_well(r);
    return r.out;
  };
  // What a run leaves that was lost before its first checkpoint.
  folder.put("run/config.json", "{}\n");
  CHECK_THAT(launch(options), ContainsSubstring("each of 2 processes sent"));
  CHECK_THAT(launch("--corpus not-there"), ContainsSubstring("resumed at step 4"));
}

TEST_CASE("the manifest of the MPI operator's job is YAML", "[cluster]") {
  const std::string read =
      "import sys, yaml; s = yaml.safe_load(open(sys.argv[1]))['spec']['mpiReplicaSpecs']; "
      "print(s['Worker']['replicas'], s['Launcher']['replicas'])";
  if (Program("/usr/bin/env", {"python3", "-c", "import yaml"}).wait().code != 0) {
    WARN("skipped: python3 has no module yaml");
    return;
  }
  const Result r =
      Program("/usr/bin/env", {"python3", "-c", read, kCluster / "mpijob.yaml"}).wait();
  INFO(r.err);
  CHECK(r.out == "4 1\n");
}
