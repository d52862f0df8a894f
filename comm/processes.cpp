#include "tapegrad/comm/processes.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/comm/internal/carrier.h"

namespace tapegrad {
namespace {

using Bytes = std::span<std::byte>;
using Sizes = std::vector<std::size_t>;

template <class T>
std::span<const std::byte> bytes_of(const T& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The processors that this process may run on, as "0110…", after a name of the running kernel: what
// two processes need to know to see whether they share one.
std::string own_processors() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string processors;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) processors += CPU_ISSET(i, &set) ? '1' : '0';
  }
  return boot + " " + processors;
}

bool share_processors(const std::string& a, const std::string& b) {
  const auto space = a.find(' ');
  if (a.size() != b.size() || a.substr(0, space) != b.substr(0, space)) return false;
  for (std::size_t i = space + 1; i < a.size(); ++i) {
    if (a[i] == '1' && b[i] == '1') return true;
  }
  return a == b;
}

}  // namespace

namespace detail {

// Moves the bytes of a part of the processes by exchanges of the whole, in which nobody else sends
// or gets anything.
class PartCarrier : public Carrier {
 public:
  PartCarrier(Processes& whole, const std::vector<int>& ranks) : whole_(whole) {
    for (const int r : ranks) {
      if (r == whole.rank()) rank = static_cast<int>(hosts.size());
      ranks_.push_back(static_cast<std::size_t>(r));
      hosts.push_back(whole.host(r));
    }
  }

  void begin(std::shared_ptr<Exchange> exchange) override {
    auto moved = std::make_shared<Exchange>();
    moved->send.resize(whole_.hosts_.size());
    moved->receive.resize(whole_.hosts_.size());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (static_cast<int>(i) == rank) continue;  // Processes has copied that
      moved->send[ranks_[i]] = exchange->send[i];
      moved->receive[ranks_[i]] = exchange->receive[i];
    }
    moved->inner = std::move(exchange);
    moved->then = [inner = moved->inner.get()] { inner->finish(); };
    whole_.begin(std::move(moved));
  }
  void wait(Exchange& exchange) override {
    const auto before = std::chrono::steady_clock::now();
    whole_.carrier_->wait(exchange);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - before;
    whole_.traffic_.seconds_waited += waited.count();
  }
  void leave() override {}
  void abort(int exit_code) override { whole_.abort(exit_code); }

 private:
  Processes& whole_;
  std::vector<std::size_t> ranks_;
};

}  // namespace detail

std::unique_ptr<Processes> Processes::part(const std::vector<int>& ranks) {
  const bool has_own = std::count(ranks.begin(), ranks.end(), rank()) == 1;
  check(has_own, "[processes] {} is not once in its part of the processes", name(rank()));
  if (!carrier_) return std::unique_ptr<Processes>(new Processes(nullptr));
  return std::unique_ptr<Processes>(
      new Processes(std::make_unique<detail::PartCarrier>(*this, ranks)));
}

std::unique_ptr<Processes> Processes::join() {
  const detail::Launch launch = detail::launch_of_environment();
  if (launch.size == 1) return std::unique_ptr<Processes>(new Processes(nullptr));
  return std::unique_ptr<Processes>(new Processes(detail::mpi_carrier(launch)));
}

int Processes::rank_of_environment() {
  try {
    return detail::launch_of_environment().rank;
  } catch (const Error&) {  // which join() tells
    return 0;
  }
}

Processes::Processes(std::unique_ptr<detail::Carrier> carrier)
    : carrier_(std::move(carrier)), exceptions_(std::uncaught_exceptions()) {
  if (!carrier_) {
    hosts_ = {"localhost"};
    return;
  }
  hosts_ = carrier_->hosts;
  const std::vector<std::string> all = all_gather(own_processors());
  const std::string& mine = all[static_cast<std::size_t>(rank())];
  sharing_ = static_cast<int>(std::count_if(
      all.begin(), all.end(), [&](const auto& other) { return share_processors(mine, other); }));
}

Processes::~Processes() {
  if (carrier_ && std::uncaught_exceptions() == exceptions_) carrier_->leave();
}

int Processes::rank() const { return carrier_ ? carrier_->rank : 0; }
int Processes::size() const { return static_cast<int>(hosts_.size()); }

const std::string& Processes::host(int rank) const {
  check(rank >= 0 && rank < size(), "[processes] there is no rank {} among {}", rank, size());
  return hosts_[static_cast<std::size_t>(rank)];
}

std::string Processes::name(int rank) const {
  return fmt::format("rank {} on {}", rank, host(rank));
}

// Cuts `bytes` into one part for each rank.
std::vector<Bytes> Processes::parts(Bytes bytes, const Sizes& sizes) const {
  const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  check(sizes.size() == hosts_.size() && sum == bytes.size(),
        "[processes] sizes of {} parts, {} bytes in all, were given for {} processes and {} bytes",
        sizes.size(), sum, hosts_.size(), bytes.size());
  std::vector<Bytes> result;
  for (const std::size_t size : sizes) {
    result.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return result;
}

Processes::Transfer Processes::begin(std::shared_ptr<detail::Exchange> exchange) {
  const auto me = static_cast<std::size_t>(rank());
  auto& from = exchange->send[me];
  Bytes& to = exchange->receive[me];
  check(from.size() == to.size(), "[processes] {} sends {} bytes to itself and expects {}",
        name(rank()), from.size(), to.size());
  if (!from.empty() && from.data() != to.data()) std::memmove(to.data(), from.data(), to.size());
  for (const auto& part : exchange->send)
    traffic_.bytes_sent += static_cast<std::int64_t>(part.size());
  traffic_.bytes_sent -= static_cast<std::int64_t>(from.size());
  Transfer transfer;
  transfer.processes_ = this;
  transfer.exchange_ = exchange;
  if (carrier_) {
    carrier_->begin(std::move(exchange));
  } else {
    exchange->finish();
  }
  return transfer;
}

void Processes::Transfer::wait() {
  if (!exchange_) return;
  const auto exchange = std::move(exchange_);
  exchange_.reset();
  if (exchange->ended == 0) {
    const auto before = std::chrono::steady_clock::now();
    processes_->carrier_->wait(*exchange);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - before;
    processes_->traffic_.seconds_waited += waited.count();
  }
  if (auto error = std::exchange(exchange->error, nullptr)) std::rethrow_exception(error);
}

Processes::Transfer Processes::all_to_all(std::span<const std::byte> send, const Sizes& send_sizes,
                                          Bytes receive, const Sizes& receive_sizes,
                                          std::function<void()> then) {
  auto exchange = std::make_shared<detail::Exchange>();
  // Cut like the other one; nothing is written through it.
  const Bytes sent(const_cast<std::byte*>(send.data()), send.size());
  for (const Bytes part : parts(sent, send_sizes)) exchange->send.push_back(part);
  exchange->receive = parts(receive, receive_sizes);
  exchange->then = std::move(then);
  return begin(std::move(exchange));
}

Processes::Transfer Processes::all_gather_parts(Bytes bytes, const Sizes& sizes) {
  auto exchange = std::make_shared<detail::Exchange>();
  exchange->receive = parts(bytes, sizes);
  const Bytes mine = exchange->receive[static_cast<std::size_t>(rank())];
  exchange->send.assign(hosts_.size(), mine);
  return begin(std::move(exchange));
}

void Processes::gather_parts(std::span<const std::byte> part, Bytes whole, const Sizes& sizes) {
  auto exchange = std::make_shared<detail::Exchange>();
  exchange->send.resize(hosts_.size());
  exchange->send[0] = part;
  exchange->receive = rank() == 0 ? parts(whole, sizes) : std::vector<Bytes>(hosts_.size());
  begin(std::move(exchange)).wait();
}

std::vector<std::string> Processes::all_gather(std::string_view mine) {
  std::vector<std::uint64_t> lengths(hosts_.size());
  lengths[static_cast<std::size_t>(rank())] = mine.size();
  all_gather_parts(std::as_writable_bytes(std::span(lengths)),
                   Sizes(hosts_.size(), sizeof(std::uint64_t)))
      .wait();
  auto exchange = std::make_shared<detail::Exchange>();
  std::vector<std::string> result;
  for (const std::uint64_t length : lengths) result.emplace_back(length, '\0');
  for (std::string& text : result) {
    exchange->receive.push_back(std::as_writable_bytes(std::span(text.data(), text.size())));
  }
  exchange->send.assign(hosts_.size(), bytes_of(mine));
  begin(std::move(exchange)).wait();
  return result;
}

// Each rank gets a part of the bytes from the root and passes it on to all, so that the root sends
// them twice, however many processes there are.
void Processes::broadcast(Bytes bytes, int root) {
  check(root >= 0 && root < size(), "[processes] there is no rank {} among {}", root, size());
  if (alone() || bytes.empty()) return;
  const std::size_t count = hosts_.size(), me = static_cast<std::size_t>(rank());
  Sizes sizes;
  for (std::size_t i = 0; i < count; ++i) {
    sizes.push_back(bytes.size() * (i + 1) / count - bytes.size() * i / count);
  }
  const std::vector<Bytes> part = parts(bytes, sizes);
  auto exchange = std::make_shared<detail::Exchange>();
  exchange->send.resize(count);
  exchange->receive.resize(count);
  if (rank() == root) {
    exchange->send.assign(part.begin(), part.end());
  }
  exchange->receive[static_cast<std::size_t>(root)] = part[me];
  begin(std::move(exchange)).wait();
  all_gather_parts(bytes, sizes).wait();
}

void Processes::abort(int exit_code) {
  if (carrier_) carrier_->abort(exit_code);
  std::_Exit(exit_code);
}

}  // namespace tapegrad
