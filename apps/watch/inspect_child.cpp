#include "tapegrad/apps/watch/inspect_child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "tapegrad/apps/watch/history.h"
#include "tapegrad/base/error.h"

extern char** environ;

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kMostTime{60};
constexpr std::size_t kMostOutput = std::size_t{8} << 20, kMostComplaint = 4 << 10;

// Both ends of a pipe, closed when this ends unless they were taken.
struct Pipe {
  Pipe() {
    check(::pipe2(ends, O_CLOEXEC) == 0, "there can be no pipe: {}",
          std::generic_category().message(errno));
  }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int take(int end) { return std::exchange(ends[end], -1); }
  int ends[2] = {-1, -1};
};

pid_t spawn(const fs::path& program, const std::vector<std::string>& args, const int (&files)[3]) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  for (int i = 0; i < 3; ++i) ::posix_spawn_file_actions_adddup2(&actions, files[i], i);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);  // sockets among them
  sigset_t none, usual;
  ::sigemptyset(&none);
  ::sigemptyset(&usual);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&usual, signal);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  pid_t process = -1;
  const int failed =
      ::posix_spawn(&process, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  check(failed == 0, "{} cannot be started: {}", program.string(),
        std::generic_category().message(failed));
  return process;
}

}  // namespace

std::optional<fs::path> InspectChild::program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error).parent_path() / "tapegrad";
  if (error || ::access(path.c_str(), X_OK) != 0 || !fs::is_regular_file(path, error)) return {};
  return path;
}

InspectChild::InspectChild(const fs::path& program, const fs::path& model,
                           const std::string& text) {
  Pipe input, output, errors;
  // A text of 4 kB fits into any pipe.
  const bool written =
      ::fcntl(input.ends[1], F_SETFL, O_NONBLOCK) == 0 &&
      ::write(input.ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
  check(written, "the text does not fit into a pipe");
  for (Pipe* pipe : {&output, &errors}) ::fcntl(pipe->ends[0], F_SETFL, O_NONBLOCK);
  process_ =
      spawn(program,
            {program.filename().string(), "inspect", "--model=" + fs::absolute(model).string(),
             "--json", "--text", "-", "--threads", "1"},
            {input.ends[0], output.ends[1], errors.ends[1]});
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(process_), 19);
  // If this program is killed, so that nobody can end the child.
  const rlimit seconds{static_cast<rlim_t>(kMostTime.count()),
                       static_cast<rlim_t>(kMostTime.count())};
  ::prlimit(process_, RLIMIT_CPU, &seconds, nullptr);
  // Where memory ends, it goes, and not the program that trains.
  std::ofstream("/proc/" + std::to_string(process_) + "/oom_score_adj") << 1000;
  output_ = output.take(0);
  errors_ = errors.take(0);
}

InspectChild::~InspectChild() {
  if (process_ > 0) {
    kill();
    ::waitpid(process_, nullptr, 0);
  }
  if (output_ >= 0) ::close(output_);
  if (errors_ >= 0) ::close(errors_);
}

void InspectChild::kill() { ::kill(-process_, SIGKILL); }

// Keeps as much as there is room for. False if it printed more.
bool InspectChild::read(int& descriptor, std::string& to, std::size_t most_bytes) {
  char piece[1 << 16];
  while (descriptor >= 0) {
    const ssize_t count = ::read(descriptor, piece, sizeof piece);
    if (count < 0) return true;  // nothing yet
    if (count == 0) {
      ::close(std::exchange(descriptor, -1));
    } else {
      const std::size_t room = most_bytes - to.size();
      to.append(piece, std::min(room, static_cast<std::size_t>(count)));
      if (static_cast<std::size_t>(count) > room) return false;
    }
  }
  return true;
}

std::optional<int> InspectChild::ended() {
  siginfo_t about{};
  const int failed =
      ::waitid(P_PID, static_cast<id_t>(process_), &about, WEXITED | WNOHANG | WNOWAIT);
  if (failed == 0 && about.si_pid == 0) return {};
  int status = 0;
  if (failed == 0) {
    kill();  // what it may have started, while the number of the group is its own
    ::waitpid(process_, &status, 0);
  } else {
    // Where SIGCHLD is ignored, the system keeps no status: what was printed tells.
    status = printed_.empty() ? 1 << 8 : 0;
  }
  process_ = -1;
  return status;
}

std::optional<InspectChild::Answer> InspectChild::look() {
  const bool fits = read(output_, printed_, kMostOutput);
  static_cast<void>(read(errors_, complaint_, kMostComplaint));
  if (const auto status = ended()) {
    if (!read(output_, printed_, kMostOutput)) killed_for_ = "inspect printed too much";
    static_cast<void>(read(errors_, complaint_, kMostComplaint));
    return answer(*status);
  }
  const bool late = std::chrono::steady_clock::now() - begin_ > kMostTime;
  if (killed_for_.empty() && (late || !fits)) {
    killed_for_ = late ? fmt::format("inspect was ended after {} s", kMostTime.count())
                       : "inspect printed too much";
    kill();
  }
  return std::nullopt;
}

InspectChild::Answer InspectChild::answer(int status) const {
  const auto refused = [](int code, const std::string& why) {
    return Answer{code, json_text({{"error", why}})};
  };
  if (!killed_for_.empty()) return refused(503, killed_for_);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    // What a broken program prints must not be taken for an answer.
    return Json::accept(printed_) ? Answer{200, printed_}
                                  : refused(503, "inspect printed what is no JSON");
  }
  std::string why = complaint_;
  while (why.ends_with('\n')) why.pop_back();
  if (why.empty()) why = WIFSIGNALED(status) ? "inspect was ended by a signal" : "inspect failed";
  return refused(422, why);
}

}  // namespace tapegrad::watch
