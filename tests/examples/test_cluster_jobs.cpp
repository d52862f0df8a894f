// The files for Slurm and Kubernetes, as far as one machine can tell.

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "tapegrad/tests/apps/on_processes.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

namespace fs = std::filesystem;

const fs::path kCluster = fs::path(tapegrad::places::kSources) / "examples/cluster";

// A node of Slurm, whose programs write down how they were called. The training keeps a checkpoint
// if `keeps`, and ends with that code.
struct Node {
  TempFolder folder;
  fs::path run = folder / "run";

  Result submit(int code, bool keeps, const Args& options) const {
    fs::create_directories(run);
    const std::string keep = keeps ? "touch '" + (run / "trainer.json").string() + "'; " : "";
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
  CHECK(node.submit(0, true, {"--corpus", "two words"}).code == 0);
  const std::string srun = "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=5 " +
                           (node.folder / "train").string() + " train --out-dir " +
                           node.run.string();
  CHECK(node.called() == srun + " --corpus two words\n");
  CHECK(node.submit(0, true, {"--corpus", "two words"}).code == 0);
  CHECK(node.called() == srun + " --corpus two words\n" + srun + " --init-from resume\n");
}

TEST_CASE("a job of Slurm that was ended is queued again if it has come to a checkpoint",
          "[cluster]") {
  const Node lost;
  const Result r = lost.submit(130, true, {});
  CHECK(r.code == 130);
  CHECK_THAT(lost.called(), ContainsSubstring("scontrol requeue 77"));
  const Node wrong;
  CHECK(wrong.submit(1, false, {}).code == 1);
  CHECK_THAT(wrong.called(), !ContainsSubstring("scontrol"));
  // Nor does a checkpoint count that was there before.
  CHECK(lost.submit(1, false, {}).code == 1);
  CHECK(lost.called().rfind("scontrol") == lost.called().find("scontrol"));
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
