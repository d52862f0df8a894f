#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/faults/shim.h"

namespace faults {

// How a run ended.
struct Outcome {
  int code = 0;  // −signal if a signal ended it
  std::string out, err;
  std::vector<Call> calls = {};
  std::string at = {};  // what the call of the fault was about
};

// A folder for the run of a program (`work`, its working folder), and one for what the test keeps
// of it (`files`).
struct Place {
  std::filesystem::path work, files;
  explicit Place(const std::filesystem::path& folder);
};

// One of the project's programs with the library shim.cpp in it: it is loaded once and then runs as
// often as asked for. See shim.h.
class Server {
 public:
  // `root` is the folder of all files that the runs read and write.
  Server(const std::string& program, const Args& args, const std::filesystem::path& root);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  Outcome run(const Place& place, Request request = {});

 private:
  TempFolder shim_{memory_folder()};
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace faults
