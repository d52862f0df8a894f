#include "tapegrad/tests/faults/fork_server.h"

#include <algorithm>
#include <cstring>

#include "tapegrad/tests/places.h"

extern char** environ;

namespace faults {
namespace {

namespace fs = std::filesystem;

// The environment with the library `shim`, so that child processes find it, too.
std::vector<std::string> environment(const fs::path& root, const fs::path& shim) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) all.emplace_back(*at);
  all.push_back("LD_PRELOAD=" + shim.string());
  all.emplace_back("FAULTS_SERVER=1");
  all.push_back("FAULTS_ROOT=" + root.string());
  // The sanitizer's library wants to be the first one, and to look for leaks takes long.
  all.emplace_back("ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0");
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

void set_path(char (&to)[256], const fs::path& path) {
  const std::string text = path.string();
  if (text.size() >= sizeof to) throw std::runtime_error("too long: " + text);
  std::memcpy(to, text.c_str(), text.size() + 1);
}

}  // namespace

Place::Place(const fs::path& folder) : work(folder / "work"), files(folder / "files") {
  fs::create_directories(work);
  fs::create_directories(files);
}

Server::Server(const std::string& program, const Args& args, const fs::path& root) {
  int requests[2], responses[2];
  if (::pipe2(requests, O_CLOEXEC) != 0 || ::pipe2(responses, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  Args command = Args{std::string(tapegrad::places::kPrograms) + "/" + program} + args;
  // LD_PRELOAD has no way to name a path with blanks, which the build folder may have.
  const fs::path shim = shim_ / "shim.so";
  fs::create_symlink(TAPEGRAD_FAULT_SHIM, shim);
  std::vector<std::string> variables = environment(root, shim);
  const std::vector<char*> argv = pointers(command), envp = pointers(variables);
  pid_ = ::fork();
  if (pid_ == 0) {
    const int none = ::open("/dev/null", O_RDWR);
    if (::dup2(none, 0) < 0 || ::dup2(none, 1) < 0 || ::dup2(requests[0], kRequestFd) < 0 ||
        ::dup2(responses[1], kResponseFd) < 0) {
      ::_exit(126);
    }
    ::execve(argv.front(), argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(requests[0]);
  ::close(responses[1]);
  to_ = requests[1];
  from_ = responses[0];
}

Server::~Server() {
  ::close(to_);  // which ends it
  ::close(from_);
  ::waitpid(pid_, nullptr, 0);
}

Outcome Server::run(const Place& place, Request request) {
  set_path(request.folder, place.work);
  set_path(request.files, place.files);
  Response response;
  auto* bytes = reinterpret_cast<char*>(&response);
  std::size_t count = 0;
  if (::write(to_, &request, sizeof request) == sizeof request) {
    for (ssize_t n = 1; n > 0 && count < sizeof response; count += static_cast<std::size_t>(n)) {
      n = std::max<ssize_t>(0, ::read(from_, bytes + count, sizeof response - count));
    }
  }
  if (count < sizeof response) throw std::runtime_error("the server has ended");
  if (response.calls > kMostCalls) throw std::runtime_error("too many file calls");
  const int status = response.status;
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
          .out = TempFolder::get(place.files / "out"),
          .err = TempFolder::get(place.files / "err"),
          .calls = {response.kinds, response.kinds + response.calls},
          .at = response.text};
}

}  // namespace faults
