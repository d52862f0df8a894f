// Signals come at any time, in the middle of a product, too.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using tapegrad::testing::Threads;

TEST_CASE("handlers of signals have a stack of their own", "[interrupt]") {
  // In a process of its own: the test framework has such a stack, too.
  const pid_t child = ::fork();
  if (child == 0) {
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    ::sigaltstack(&none, nullptr);
    catch_interrupts();
    stack_t stack;
    ::sigaltstack(nullptr, &stack);
    bool good = (stack.ss_flags & SS_DISABLE) == 0 &&
                stack.ss_size >= static_cast<std::size_t>(::sysconf(_SC_SIGSTKSZ));
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      good = good && (action.sa_handler == SIG_IGN || (action.sa_flags & SA_ONSTACK) != 0);
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("workers take no signals", "[interrupt]") {
  const Threads threads(4);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> ranges{0}, open{0};
  for (int i = 0; i < 100 && ranges == 0; ++i) {
    parallel_for(1 << 10, 1, [&](std::int64_t, std::int64_t) {
      ::usleep(1000);  // until workers are awake
      if (std::this_thread::get_id() == caller) return;
      sigset_t blocked;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      ++ranges;
      for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGUSR1}) {
        open += ::sigismember(&blocked, signal) == 1 ? 0 : 1;
      }
    });
  }
  CHECK(ranges > 0);
  CHECK(open == 0);
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  CHECK(::sigismember(&blocked, SIGINT) == 0);  // the caller takes them as before
}

namespace {

int heard = 0;

// In a process of its own, which ends with 0 if `body` returns true: its status.
template <class Body>
int status_of_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("shared interrupts go on to the handlers that were there", "[interrupt]") {
  CHECK(status_of_child([] {
          ::signal(SIGINT, [](int) { ++heard; });
          bool good = true;
          {
            const SharedInterrupts shared;
            catch_interrupts();
            good = !interrupted();
            ::raise(SIGINT);
            ::raise(SIGINT);  // which ends nothing
            good = good && heard == 2 && interrupted() && interrupt_cause() == "SIGINT (Ctrl-C)";
          }
          ::raise(SIGINT);
          return good && heard == 3 && !interrupted();
        }) == 0);
}

TEST_CASE("a signal without a handler comes again behind shared interrupts", "[interrupt]") {
  const int status = status_of_child([] {
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGHUP, SIG_IGN);
    const SharedInterrupts shared;
    ::raise(SIGHUP);
    if (interrupted()) return true;  // an ignored signal stays ignored
    ::raise(SIGTERM);
    return !interrupted();
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}
