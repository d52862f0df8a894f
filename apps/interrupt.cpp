#include "apps/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>

namespace tapegrad::apps {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void on_signal(int) {
  if (flag.exchange(true)) ::_exit(interrupted_exit_code);
}

}  // namespace

void catch_interrupts() {
  // Output that nobody reads any more is found out by writing it.
  ::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

bool interrupted() { return flag; }
void interrupt() { flag = true; }

}  // namespace tapegrad::apps
