#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <initializer_list>
#include <mutex>
#include <thread>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/blocked_signals.h"
#include "tapegrad/comm/internal/carrier.h"
#include "tapegrad/comm/internal/mpi_end.h"
#include "tapegrad/comm/internal/mpi_heartbeats.h"
#include "tapegrad/comm/internal/mpi_moves.h"

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

// All calls of MPI are made by one thread, from its beginning to MPI's end. Other threads hand it
// exchanges by a queue.
class MpiCarrier : public Carrier {
 public:
  explicit MpiCarrier(const Launch& launch) : timeout_(process_timeout()) {
    {
      const BlockedSignals blocked;
      thread_ = std::thread([this, launch] { run(launch); });
    }
    std::unique_lock lock(mutex_);
    meet_or_end(lock, news_, met_, {launch.rank, timeout_, "begin"});
    news_.wait(lock, [this] { return joined_; });
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
    std::unique_lock lock(mutex_);
    leaving_ = true;
    wake_.notify_all();
    news_.wait(lock, [this] { return all_left_; });
    meet_or_end(lock, news_, ended_, {rank, timeout_, "end"});
    lock.unlock();
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
    tell({&met_, &joined_});
    if (!error_) serve();
  }

  // Wakes the threads that wait for these.
  void tell(std::initializer_list<bool*> news) {
    {
      const std::lock_guard lock(mutex_);
      for (bool* fact : news) *fact = true;
    }
    news_.notify_all();
  }

  void join(const Launch& launch) {
    int begun = 0, provided = 0, size = 0;
    check_mpi(MPI_Initialized(&begun), "MPI_Initialized");
    check(begun == 0, "[processes] this process has joined its group already");
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    tell({&met_});
    check(provided >= MPI_THREAD_FUNNELED, "[processes] this MPI does not allow threads");
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
              "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    check(
        launch.size == 0 || launch.size == size,
        "[processes] {} has started {} processes, but MPI finds {}: they need the launcher of the "
        "MPI that this program was built with (srun: try --mpi=pmix or pmi2, or mpirun in its "
        "place)",
        launch.launcher, launch.size, size);
    heartbeats_ = std::make_unique<Heartbeats>(rank, size, timeout_);
    gather_hosts(size);
    heartbeats_->name_hosts(hosts);
    moves_ = std::make_unique<Moves>(rank, size);
  }

  void gather_hosts(int size) {
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0, gathered = 0;
    check_mpi(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
    std::string names(static_cast<std::size_t>(size) * sizeof name, '\0');
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(name, sizeof name, MPI_CHAR, names.data(), sizeof name, MPI_CHAR,
                             MPI_COMM_WORLD, &request),
              "MPI_Iallgather");
    while (true) {
      check_mpi(MPI_Test(&request, &gathered, MPI_STATUS_IGNORE), "MPI_Test");
      if (gathered != 0) break;
      beat();  // somebody may have been stopped here
      std::this_thread::sleep_for(kShortNap);
    }
    for (std::size_t i = 0; i < names.size(); i += sizeof name) hosts.emplace_back(&names[i]);
  }

  void serve() {
    while (true) {
      begin_moves();
      const bool busy = end_moves();
      beat();
      {
        const std::lock_guard lock(mutex_);
        if (aborting_) abort_all(exit_code_);
        if (stopping_) return;
        if (leaving_ && moves_->empty() && queue_.empty()) heartbeats_->leave();
      }
      if (heartbeats_->all_left()) break;
      rest(busy);
    }
    tell({&all_left_});
    MPI_Finalize();
    tell({&ended_});
  }

  void begin_moves() {
    std::deque<std::shared_ptr<Exchange>> begun;
    if (!queued_) return;
    {
      const std::lock_guard lock(mutex_);
      begun.swap(queue_);
      queued_ = false;
    }
    begun_ += static_cast<std::int64_t>(begun.size());
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

  // True if something was moved.
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
      problem = heartbeats_->tick(begun_);
    } catch (const Error& error) {
      problem = error.what();
    }
    if (problem.empty()) return;
    say_last(std::move(problem));
    abort_all(1);
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

  // Used by the thread of MPI alone.
  std::unique_ptr<Heartbeats> heartbeats_;
  std::unique_ptr<Moves> moves_;
  Clock::time_point awake_until_, last_beat_;
  bool awaited_ = false;    // at the last look
  std::int64_t begun_ = 0;  // exchanges

  const std::chrono::seconds timeout_;

  std::mutex mutex_;  // of what follows
  std::condition_variable wake_, news_;
  std::deque<std::shared_ptr<Exchange>> queue_;
  bool met_ = false, joined_ = false, all_left_ = false, ended_ = false;
  bool stopping_ = false, aborting_ = false;
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
