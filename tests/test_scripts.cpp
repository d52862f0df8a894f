// The scripts by which people begin: where they cannot go on, they say what to do.

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"
#include "tapegrad/tests/temp_folder.h"

namespace {

namespace fs = std::filesystem;

// A system of few programs, on which nothing is installed and nobody is root.
class Machine {
 public:
  Machine() {
    for (const char* name : {"bash", "cat", "dirname", "env", "grep", "mkdir", "nproc"}) {
      const fs::path usual = fs::path("/usr/bin") / name;
      fs::create_symlink(fs::exists(usual) ? usual : fs::path("/bin") / name, bin_ / name);
    }
    add("dpkg-query", "exit 1");
    add("id", "echo 1000");
    add("apt-get", "echo \"apt-get $*\" >>\"$0.calls\"");
  }

  void add(const std::string& name, const std::string& body) {
    fs::remove(bin_ / name);  // a link to the system's program would be written through
    fs::permissions(bin_.put(name, "#!/bin/sh\n" + body + "\n"), fs::perms::all);
  }

  // Runs a script of the project, which gets no other programs.
  Result run(const fs::path& script) const {
    return Program("/usr/bin/env", {"PATH=" + bin_.path().string(), "bash", script}).wait();
  }

  std::string apt_calls() const { return TempFolder::get(bin_ / "apt-get.calls"); }

 private:
  TempFolder bin_;
};

fs::path script(const std::string& name) {
  return fs::path(tapegrad::places::kSources) / "scripts" / name;
}

}  // namespace

TEST_CASE("without sudo, missing packages are a line for an administrator", "[scripts]") {
  const Machine machine;
  const Result r = machine.run(script("packages.sh"));
  CHECK(r.code == 1);
  CHECK(r.out.empty());
  CHECK_THAT(r.err,
             ContainsSubstring("Packages are missing, and there is no sudo. Please ask an "
                               "administrator to run:\n  apt-get update && apt-get install -y "
                               "--no-install-recommends g++ cmake "));
  CHECK(machine.apt_calls().empty());
}

TEST_CASE("whom sudo refuses gets the same line", "[scripts]") {
  Machine machine;
  machine.add("sudo", "exit 1");
  const Result r = machine.run(script("packages.sh"));
  CHECK(r.code == 1);
  CHECK_THAT(r.err,
             ContainsSubstring("Packages are missing, and sudo is refused. Please ask an "
                               "administrator to run:\n  apt-get update && apt-get install"));
  CHECK(machine.apt_calls().empty());
}

TEST_CASE("without a network, packages.sh says so in one line, and tries no further", "[scripts]") {
  Machine machine;
  machine.add("sudo", "[ \"$1\" = -l ] || exec \"$@\"");
  machine.add("apt-get",
              "echo \"apt-get $*\" >>\"$0.calls\"\n"
              "echo 'Err:1 http://deb.example bookworm InRelease'\n"
              "echo \"W: Failed to fetch http://deb.example  Temporary failure resolving\" >&2\n"
              "echo 'W: Some index files failed to download.' >&2");
  const Result r = machine.run(script("packages.sh"));
  CHECK(r.code == 1);
  CHECK_THAT(r.err,
             ContainsSubstring("No lists of packages can be fetched (Failed to fetch "
                               "http://deb.example  Temporary failure resolving). Packages are "
                               "missing: g++ cmake"));
  CHECK(r.err.find('\n') == r.err.size() - 1);
  CHECK_THAT(machine.apt_calls(), ContainsSubstring("Acquire::Retries=0") &&
                                      ContainsSubstring(" update ") &&
                                      !ContainsSubstring(" install "));
}

TEST_CASE("packages come from the servers that answer", "[scripts]") {
  Machine machine;
  machine.add("sudo", "[ \"$1\" = -l ] || exec \"$@\"");
  machine.add("apt-get",
              "echo \"apt-get $*\" >>\"$0.calls\"\n"
              "echo 'Hit:1 http://deb.example bookworm InRelease'\n"
              "echo 'Err:2 http://gone.example bookworm InRelease'");
  CHECK(machine.run(script("packages.sh")).code == 0);
  CHECK_THAT(machine.apt_calls(), ContainsSubstring(" install "));
}

TEST_CASE("in a folder that cannot be written to, the scripts say how to build elsewhere",
          "[scripts]") {
  const TempFolder folder;
  const Machine machine;
  folder.put("build", "a file is where the folder would be");
  for (const char* name : {"quickstart.sh", "test.sh"}) {
    const fs::path copied = folder / "scripts" / name;
    fs::create_directories(copied.parent_path());
    fs::copy_file(script(name), copied);
    const Result r = machine.run(copied);
    INFO(r.err);
    CHECK(r.code == 1);
    CHECK_THAT(r.err,
               ContainsSubstring(" cannot be written to") && ContainsSubstring("~/tapegrad-build"));
    CHECK(machine.apt_calls().empty());
  }
}

namespace {

// A checkout whose compiler takes no time: its cmake notes what it builds, and makes programs that
// note what they are called with.
class QuickCheckout {
 public:
  QuickCheckout() {
    for (const char* name : {"chmod", "cp", "date", "sh", "touch"}) {
      machine_.add(name, "exec /usr/bin/env -i /bin/" + std::string(name) + " \"$@\"");
    }
    folder_.put("scripts/packages.sh", "#!/bin/sh\n");
    fs::permissions(folder_ / "scripts/packages.sh", fs::perms::all);
    fs::copy_file(script("quickstart.sh"), folder_ / "scripts/quickstart.sh");
    machine_.add(
        "cmake",
        "mkdir -p build/bin\n"
        "case \"$*\" in *first_program) ;; *programs) exit ${FAILS:-0} ;; *) exit 0 ;; esac\n"
        "echo \"builds $*\"\n"
        "printf '#!/bin/sh\\necho \"calls $*\"\\n' >build/bin/tapegrad\n"
        "chmod +x build/bin/tapegrad\n"
        "touch -d 2000-06-01 build/bin/tapegrad");
  }

  Result quickstart() const { return machine_.run(folder_ / "scripts/quickstart.sh"); }

 private:
  TempFolder folder_;
  Machine machine_;
};

}  // namespace

TEST_CASE("the quickstart trains before the other commands are built", "[scripts]") {
  const QuickCheckout checkout;
  const Result r = checkout.quickstart();
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  const auto built = r.out.find("--target first_program"), trained = r.out.find("calls train "),
             others = r.out.find("Building the other commands");
  CHECK(built < trained);
  CHECK(trained < others);
  CHECK(others != std::string::npos);
}

TEST_CASE("a quickstart whose other commands are not built says how to go on", "[scripts]") {
  const QuickCheckout checkout;
  ::setenv("FAILS", "3", 1);
  const Result r = checkout.quickstart();
  ::unsetenv("FAILS");
  INFO(r.out << r.err);
  CHECK(r.code == 3);
  CHECK_THAT(r.err, ContainsSubstring("Not all commands are built yet: train and sample are. To go "
                                      "on: cmake --build build --parallel ") &&
                        ContainsSubstring(" --target programs\n"));
}
