#include "tapegrad/tests/faults/fate.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace faults {
namespace {

constexpr int kMostSeconds = 100;  // then SIGALRM ends a child

enum class Role { unused, server, child };
Role role = Role::unused;
Request plan;
Response* response = nullptr;  // shared by the server and its child
int log_fd = -1;
bool begun = false;  // a fault that goes on has begun

// Waits for requests. Returns in the child that a request asks for.
void serve() {
  static const auto do_read = next<decltype(&::read)>("read");
  static const auto do_write = next<decltype(&::write)>("write");
  static const auto do_open = next<decltype(&::open)>("open");
  role = Role::child;  // of all calls from here on, only those of a child return
  while (do_read(kRequestFd, &plan, sizeof plan) == sizeof plan) {
    *response = {};
    const pid_t child = ::fork();
    if (child != 0) {
      ::waitpid(child, &response->status, 0);
      if (do_write(kResponseFd, response, sizeof *response) != sizeof *response) break;
      continue;
    }
    const auto open_in_files = [](const char* name) {
      char path[300];
      print_to(path, "%s/%s", plan.files, name);
      return do_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    };
    if (plan.record) log_fd = ::dup2(open_in_files("log"), kMostFds);
    const bool ready = ::dup2(open_in_files("out"), 1) == 1 &&
                       ::dup2(open_in_files("err"), 2) == 2 && ::chdir(plan.folder) == 0;
    if (!ready) ::_exit(126);
    ::alarm(kMostSeconds);
    if (plan.file_limit > 0) {
      const rlimit limit{static_cast<rlim_t>(plan.file_limit),
                         static_cast<rlim_t>(plan.file_limit)};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    return;
  }
  ::_exit(0);
}

__attribute__((constructor)) void begin() {
  if (::getenv("FAULTS_SERVER") == nullptr) return;
  void* memory =
      ::mmap(nullptr, sizeof(Response), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  response = new (memory) Response;
  role = Role::server;
}

}  // namespace

bool is_child() { return role == Role::child; }

int fate(Call call, const char* path) {
  if (role == Role::server) serve();
  if (role != Role::child) return 0;
  if (response->calls < kMostCalls) response->kinds[response->calls] = call;
  const bool here = ++response->calls == plan.call;
  const bool goes_on = plan.fault >= Fault::full;
  if (here) print_to(response->text, "%s", path);
  if (here && plan.fault == Fault::kill) {
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }
  if (here && goes_on) begun = true;
  if (!here && !begun) return 0;
  if (!applies(plan.fault, call)) return 0;
  // A disk that gets full takes a part of what is written.
  const bool half =
      plan.fault == Fault::half || (here && plan.fault == Fault::full && call == Call::write);
  return half ? -1 : error_of(plan.fault);
}

void record(Record r, const void* first, const void* second) {
  if (log_fd < 0) return;
  const int error = errno;
  const iovec parts[] = {
      {&r, sizeof r}, {const_cast<void*>(first), r.first}, {const_cast<void*>(second), r.second}};
  if (::writev(log_fd, parts, 3) < 0) ::abort();
  errno = error;
}

void record(Record::Kind kind, const char* path, int fd, int flags) {
  record({kind, fd, flags, 0, std::strlen(path), 0}, path);
}

}  // namespace faults
