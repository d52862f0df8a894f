#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>

#include "tapegrad/base/blocked_signals.h"
#include "tapegrad/base/error.h"
#include "tapegrad/comm/carrier.h"
#include "tapegrad/comm/mpi_heartbeats.h"
#include "tapegrad/comm/mpi_moves.h"

namespace tapegrad::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long the thread looks for more to do before it sleeps, while somebody waits or nothing is
// under way; longer than from one of several small calls to the next one.
constexpr microseconds kAwake{100};
// How long it sleeps between two looks at what is under way, if somebody waits: no longer than it
// takes to wake up.
constexpr microseconds kShortNap{20};
// How long the thread sleeps if nobody waits. A nap can cost 20 us of a processor. What a network
// of 10 Gbit/s brings in this time fits the buffers of its sockets.
constexpr microseconds kNap{300};
// How long it sleeps if nothing is: heartbeats are due even then.
constexpr milliseconds kSleep{250};
// While it waits for the others to come to their end.
constexpr milliseconds kLeavingNap{1};
// A look at what is under way that takes longer than this has moved bytes.
constexpr microseconds kLongLook{20};
// For the launcher to pass on what was printed: MPICH's one drops what it has not read by
// MPI_Abort.
constexpr microseconds kLastWords{200000};
// For the launcher to end all processes, after MPI_Abort.
constexpr unsigned kSecondsToAbort = 10;

// All calls of MPI are made by one thread, from its beginning to MPI's end. Other threads hand it
// exchanges by a queue.
class MpiCarrier : public Carrier {
 public:
  explicit MpiCarrier(const Launch& launch) {
    {
      const BlockedSignals blocked;
      thread_ = std::thread([this, launch] { run(launch); });
    }
    std::unique_lock lock(mutex_);
    news_.wait(lock, [this] { return joined_ || error_; });
    if (!error_) return;
    lock.unlock();
    thread_.join();
    std::rethrow_exception(error_);
  }

  // Without leave(), MPI is not ended: the process is about to fail.
  ~MpiCarrier() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void begin(std::shared_ptr<Exchange> exchange) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(exchange));
      queued_ = true;
    }
    wake_.notify_all();
  }

  void wait(Exchange& exchange) override {
    ++waiting_;
    {
      const std::lock_guard lock(mutex_);  // the thread may be about to take a nap
    }
    wake_.notify_all();
    exchange.ended.wait(0);
    --waiting_;
  }

  void leave() override {
    {
      const std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void abort(int exit_code) override {
    {
      const std::lock_guard lock(mutex_);
      exit_code_ = exit_code;
      aborting_ = true;
    }
    wake_.notify_all();
    ::sleep(kSecondsToAbort);
    ::_exit(exit_code);
  }

 private:
  void run(const Launch& launch) {
    ::prctl(PR_SET_TIMERSLACK, 1000UL);  // naps are as short as they are meant to be
    try {
      join(launch);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      joined_ = true;
    }
    news_.notify_all();
    if (!error_) serve();
  }

  void join(const Launch& launch) {
    int begun = 0, provided = 0, size = 0;
    check_mpi(MPI_Initialized(&begun), "MPI_Initialized");
    check(begun == 0, "[processes] this process has joined its group already");
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    check(provided >= MPI_THREAD_FUNNELED, "[processes] this MPI does not allow threads");
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
    // MPICH's MPI_Testall tells its errors to the handler of MPI_COMM_WORLD, whatever it tests.
    for (const MPI_Comm c : {communicator_, MPI_COMM_WORLD}) {
      check_mpi(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    check_mpi(MPI_Comm_rank(communicator_, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(communicator_, &size), "MPI_Comm_size");
    check(
        launch.size == 0 || launch.size == size,
        "[processes] {} has started {} processes, but MPI finds {}: they need the launcher of the "
        "MPI that this program was built with (srun: try --mpi=pmix or pmi2, or mpirun in its "
        "place)",
        launch.launcher, launch.size, size);
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    check_mpi(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
    std::string names(static_cast<std::size_t>(size) * sizeof name, '\0');
    check_mpi(MPI_Allgather(name, sizeof name, MPI_CHAR, names.data(), sizeof name, MPI_CHAR,
                            communicator_),
              "MPI_Allgather");
    for (std::size_t i = 0; i < names.size(); i += sizeof name) hosts.emplace_back(&names[i]);
    moves_ = std::make_unique<Moves>(rank, size, communicator_);
    heartbeats_ = std::make_unique<Heartbeats>(hosts, rank);
  }

  void serve() {
    while (true) {
      begin_moves();
      const bool busy = end_moves();
      beat();
      {
        const std::lock_guard lock(mutex_);
        if (aborting_) abort_now(exit_code_);
        if (stopping_) return;
        if (leaving_ && moves_->empty() && queue_.empty()) heartbeats_->leave();
      }
      if (heartbeats_->all_left()) break;
      rest(busy);
    }
    MPI_Finalize();
  }

  void begin_moves() {
    std::deque<std::shared_ptr<Exchange>> begun;
    if (!queued_) return;
    {
      const std::lock_guard lock(mutex_);
      begun.swap(queue_);
      queued_ = false;
    }
    for (auto& exchange : begun) {
      if (error_) {
        exchange->end(error_);
        continue;
      }
      try {
        moves_->begin(exchange);
      } catch (...) {
        fail_all();
        if (exchange->ended == 0) exchange->end(error_);
      }
    }
  }

  // Whether something was moved.
  bool end_moves() {
    const auto before = Clock::now();
    bool ended = false;
    try {
      ended = moves_->advance();
    } catch (...) {
      fail_all();
      return true;
    }
    // A look that takes long has moved something, and there may be more of it.
    return ended || (!moves_->empty() && Clock::now() - before > kLongLook);
  }

  // With an exception on its way that nothing recovers from.
  void fail_all() {
    error_ = std::current_exception();
    moves_->fail(error_);
  }

  void beat() {
    const auto now = Clock::now();
    if (now - last_beat_ < (leaving_ ? kLeavingNap : kSleep)) return;
    last_beat_ = now;
    std::string problem;
    try {
      problem = heartbeats_->tick();
    } catch (const Error& error) {
      problem = error.what();
    }
    if (problem.empty()) return;
    problem += '\n';  // in one call, so that it does not mix with other processes' words
    if (::write(STDERR_FILENO, problem.data(), problem.size()) < 0) {
    }  // nobody is there to be told
    abort_now(1);
  }

  // Returns when it is time to look again.
  void rest(bool busy) {
    const auto now = Clock::now();
    const bool idle = moves_->empty(), awaited = !idle && waiting_ > 0, leaving = leaving_;
    if (busy || awaited != awaited_) {
      awake_until_ = idle || awaited ? now + kAwake : now;
      awaited_ = awaited;
    }
    if (busy || now < awake_until_) {
      ::sched_yield();
      return;
    }
    const Clock::duration nap = leaving   ? Clock::duration(kLeavingNap)
                                : awaited ? Clock::duration(kShortNap)
                                : idle    ? Clock::duration(kSleep)
                                          : Clock::duration(kNap);
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, nap, [&] {
      return queued_ || aborting_ || stopping_ || leaving_ != leaving ||
             (waiting_ > 0 && !idle && !awaited);
    });
  }

  [[noreturn]] static void abort_now(int exit_code) {
    ::signal(SIGALRM, SIG_DFL);  // which ends this process if MPI_Abort hangs
    ::alarm(kSecondsToAbort);
    std::this_thread::sleep_for(kLastWords);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    ::_exit(exit_code);
  }

  // Used by the thread of MPI alone.
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::unique_ptr<Heartbeats> heartbeats_;
  std::unique_ptr<Moves> moves_;
  Clock::time_point awake_until_, last_beat_;
  bool awaited_ = false;  // at the last look

  std::mutex mutex_;  // of what follows
  std::condition_variable wake_, news_;
  std::deque<std::shared_ptr<Exchange>> queue_;
  bool joined_ = false, stopping_ = false, aborting_ = false;
  int exit_code_ = 0;
  std::exception_ptr error_;

  std::atomic<bool> queued_{false}, leaving_{false};
  std::atomic<int> waiting_{0};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Carrier> mpi_carrier(const Launch& launch) {
  return std::make_unique<MpiCarrier>(launch);
}

}  // namespace tapegrad::detail
