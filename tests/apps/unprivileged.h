#pragma once

#include "tapegrad/tests/apps/program.h"

// Runs a program that hostile files could make do harm. If the tests run as root, it runs as the
// user nobody, to whom `folder` is given with all that is in it.
inline Result run_unprivileged(const std::string& name, const Args& args,
                               const std::filesystem::path& folder) {
  if (::geteuid() != 0) return run_program(name, args, folder);
  const auto give = [&](const std::filesystem::path& path) {
    constexpr uid_t kNobody = 65534;
    if (::lchown(path.c_str(), kNobody, kNobody) != 0) throw std::runtime_error("lchown failed");
  };
  give(folder);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) give(entry);
  return Program(name, args, folder, "/dev/null", Program::User::nobody).wait();
}
