#pragma once

#include <grp.h>

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/places.h"

// Runs a program that hostile files could make do harm. If the tests run as root, it runs as the
// user nobody, to whom `folder` is given with all that is in it.
inline Result run_unprivileged(const std::string& name, const Args& args,
                               const std::filesystem::path& folder) {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() != 0) return run_program(name, args, folder);
  const auto give = [&](const std::filesystem::path& path) {
    if (::lchown(path.c_str(), kNobody, kNobody) != 0) throw std::runtime_error("lchown failed");
  };
  give(folder);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) give(entry);

  const std::string path = std::string(tapegrad::places::kPrograms) + "/" + name;
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const TempFolder files;
  const std::string out = files / "out", err = files / "err";
  const pid_t child = ::fork();
  if (child == 0) {
    const int to_out = ::open(out.c_str(), O_WRONLY | O_CREAT, 0600);
    const int to_err = ::open(err.c_str(), O_WRONLY | O_CREAT, 0600);
    if (::dup2(to_out, 1) < 0 || ::dup2(to_err, 2) < 0 || ::setgroups(0, nullptr) != 0 ||
        ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0 || ::chdir(folder.c_str()) != 0) {
      ::_exit(126);
    }
    ::execv(path.c_str(), argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), TempFolder::get(out),
          TempFolder::get(err)};
}
