// Processes at work together, run by `mpirun -n R ranks CASE`. Each case throws if something is
// wrong, which ends all processes.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>

#include "tapegrad/base/error.h"
#include "tapegrad/comm/processes.h"

using namespace tapegrad;

namespace {

using Sizes = std::vector<std::size_t>;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::span<std::byte> bytes_of(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

// The message of rank `from` to rank `to` in round `round`: of any length, 0 included.
std::string message(int from, int to, int round) {
  std::mt19937 random(static_cast<unsigned>(from * 1000 + to * 10 + round * 100000));
  const std::size_t sizes[] = {0, 1, 77, 5000, 300000};
  std::string text(sizes[random() % 5], '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

void texts_are_gathered(Processes& p) {
  const auto text = [](int rank) { return std::string(index(rank * rank * 1000), 'a') + "\n\0"; };
  const auto all = p.all_gather(text(p.rank()));
  check(all.size() == index(p.size()), "{} texts of {}", all.size(), p.size());
  for (int i = 0; i < p.size(); ++i) check(all[index(i)] == text(i), "the text of rank {}", i);
  for (const auto& empty : p.all_gather("")) check(empty.empty(), "an empty text is '{}'", empty);
}

// Many at once, of which some end long after others.
void parts_arrive_while_others_are_under_way(Processes& p) {
  constexpr int kRounds = 40;
  std::vector<std::string> sent(kRounds), expected(kRounds), received(kRounds);
  std::vector<Processes::Transfer> transfers;
  std::vector<int> order;
  for (int round = 0; round < kRounds; ++round) {
    Sizes send_sizes, receive_sizes;
    for (int i = 0; i < p.size(); ++i) {
      const std::string to = message(p.rank(), i, round), from = message(i, p.rank(), round);
      sent[index(round)] += to;
      expected[index(round)] += from;
      send_sizes.push_back(to.size());
      receive_sizes.push_back(from.size());
    }
    received[index(round)].resize(expected[index(round)].size());
    transfers.push_back(p.all_to_all(bytes_of(sent[index(round)]), send_sizes,
                                     bytes_of(received[index(round)]), receive_sizes,
                                     [&order, round] { order.push_back(round); }));
  }
  for (int round = kRounds; round-- > 0;) {
    transfers[index(round)].wait();
    check(received[index(round)] == expected[index(round)], "round {}", round);
  }
  std::vector<int> in_order(kRounds);
  std::iota(in_order.begin(), in_order.end(), 0);
  check(order == in_order, "functions at the end of transfers were called in another order");
}

void parts_become_everybodys(Processes& p) {
  for (int round = 0; round < 5; ++round) {
    std::string expected, bytes;
    Sizes sizes;
    for (int i = 0; i < p.size(); ++i) {
      const std::string part = message(i, 0, round);
      expected += part;
      bytes += i == p.rank() ? part : std::string(part.size(), '?');
      sizes.push_back(part.size());
    }
    std::string whole(p.rank() == 0 ? expected.size() : 0, '?');
    std::string part = message(p.rank(), 0, round);
    p.gather_parts(bytes_of(part), bytes_of(whole), sizes);
    check(p.rank() != 0 || whole == expected, "what rank 0 has gathered");
    p.all_gather_parts(bytes_of(bytes), sizes).wait();
    check(bytes == expected, "what all have gathered");
  }
}

void a_root_tells_all(Processes& p) {
  for (int root = 0; root < p.size(); ++root) {
    for (const std::size_t size : {0, 1, 3, 100000}) {
      std::string expected(size, static_cast<char>('a' + root));
      if (size > 0) expected.back() = '!';
      std::string bytes = p.rank() == root ? expected : std::string(size, '?');
      p.broadcast(bytes_of(bytes), root);
      check(bytes == expected, "{} bytes of rank {}", size, root);
    }
  }
}

template <class Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect(const std::string& text, const std::string& part) {
  check(text.find(part) != std::string::npos, "'{}' is not in '{}'", part, text);
}

void errors_come_to_those_who_wait(Processes& p) {
  std::string bytes(index(p.size()), 'x');
  const Sizes ones(index(p.size()), 1);
  auto transfer = p.all_to_all(bytes_of(bytes), ones, bytes_of(bytes), ones,
                               [] { fail("the sum is too large"); });
  expect(error_of([&] { transfer.wait(); }), "the sum is too large");
  expect(error_of([&] { p.all_gather_parts(bytes_of(bytes), {1, 2, 3}); }), "sizes of 3 parts");
  expect(error_of([&] { static_cast<void>(p.host(p.size())); }), "there is no rank");
  texts_are_gathered(p);  // and all goes on
}

void differences_are_named(Processes& p) {
  if (p.alone()) return;
  check_same(p, {{"program", "1"}, {"corpus", "2"}});
  const int last = p.size() - 1;
  const std::string mine = p.rank() == last ? "yours" : "ours";
  const std::string error = error_of([&] {
    check_same(p, {{"program", "1"}, {"corpus", mine}, {"options", "2"}});
  });
  expect(error, "corpus must be the same in all processes, and is not: ours in rank 0 on ");
  expect(error, "yours in " + p.name(last));
  const std::string missing = error_of([&] {
    p.rank() == last ? check_same(p, {}) : check_same(p, {{"program", "1"}});
  });
  expect(missing, "nothing in " + p.name(last));
}

void traffic_is_counted(Processes& p) {
  const auto before = p.traffic().bytes_sent;
  std::string bytes(index(p.size()) * 10, 'x');
  p.all_gather_parts(bytes_of(bytes), Sizes(index(p.size()), 10)).wait();
  const auto sent = p.traffic().bytes_sent - before;
  check(sent == 10 * (p.size() - 1), "{} bytes were sent", sent);
}

// Groups of neighbours and groups of their likes, at once with all.
void parts_are_groups(Processes& p) {
  const int members = p.size() % 2 == 0 ? 2 : p.size(), own = p.rank() / members;
  std::vector<int> neighbours, likes;
  for (int m = 0; m < members; ++m) neighbours.push_back(own * members + m);
  for (int g = p.size() / members; g-- > 0;) likes.push_back(g * members + p.rank() % members);
  const auto near = p.part(neighbours), like = p.part(likes);
  check(near->size() == members && near->rank() == p.rank() % members, "a part has another rank");
  check(like->size() == p.size() / members && like->rank() == like->size() - 1 - own,
        "a part is not in the order of its ranks");
  const std::int64_t before = p.traffic().bytes_sent;
  for (Processes* part : {near.get(), like.get()}) {
    texts_are_gathered(*part);
    parts_arrive_while_others_are_under_way(*part);
    parts_become_everybodys(*part);
    a_root_tells_all(*part);
  }
  const std::int64_t sent = near->traffic().bytes_sent + like->traffic().bytes_sent;
  check(p.alone() || p.traffic().bytes_sent - before <= sent, "the whole counts too much");
  check(p.alone() || p.traffic().bytes_sent > before, "the whole does not count its parts");
  std::vector<std::string> bytes;
  for (const Processes* part : {near.get(), &p, like.get()})
    bytes.emplace_back(index(part->size()) * 100, static_cast<char>('a' + part->rank()));
  std::vector<Processes::Transfer> transfers;
  transfers.push_back(near->all_gather_parts(bytes_of(bytes[0]), Sizes(index(near->size()), 100)));
  transfers.push_back(p.all_gather_parts(bytes_of(bytes[1]), Sizes(index(p.size()), 100)));
  transfers.push_back(like->all_gather_parts(bytes_of(bytes[2]), Sizes(index(like->size()), 100)));
  while (!transfers.empty()) {
    transfers.back().wait();
    transfers.pop_back();
  }
  for (const std::string& text : bytes) {
    for (std::size_t i = 0; i < text.size(); ++i)
      check(text[i] == static_cast<char>('a' + i / 100), "byte {} of parts at once", i);
  }
}

void all_cases(Processes& p) {
  texts_are_gathered(p);
  parts_arrive_while_others_are_under_way(p);
  parts_become_everybodys(p);
  a_root_tells_all(p);
  errors_come_to_those_who_wait(p);
  differences_are_named(p);
  traffic_is_counted(p);
  parts_are_groups(p);
}

// A part that does not fit into one message.
void large(Processes& p) {
  Sizes sizes(index(p.size()), 1000);
  sizes[0] = (std::size_t{1} << 30) + 12345;
  std::string bytes(sizes[0] + 1000 * (sizes.size() - 1), '?');
  for (std::size_t i = 0; p.rank() == 0 && i < sizes[0]; ++i) bytes[i] = static_cast<char>(i / 7);
  p.all_gather_parts(bytes_of(bytes), sizes).wait();
  for (std::size_t i = 0; i < sizes[0]; ++i) {
    check(bytes[i] == static_cast<char>(i / 7), "byte {}", i);
  }
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// How fast bytes travel: of one transfer after the other, and of several under way.
void rate(Processes& p) {
  const auto others = static_cast<double>(p.size() - 1);
  for (const std::size_t size : {8, 1000, 30000, 1000000, 16000000}) {
    std::string sent(size * index(p.size()), 'x'), received = sent;
    const Sizes sizes(index(p.size()), size);
    const auto once = [&] {
      return p.all_to_all(bytes_of(sent), sizes, bytes_of(received), sizes);
    };
    once().wait();
    const int rounds = size > 100000 ? 20 : 500;
    p.all_gather("");
    double begin = seconds();
    for (int i = 0; i < rounds; ++i) once().wait();
    const double waiting = (seconds() - begin) / rounds;
    begin = seconds();
    std::vector<Processes::Transfer> transfers;
    for (int i = 0; i < rounds; ++i) transfers.push_back(once());
    for (auto& transfer : transfers) transfer.wait();
    const double together = (seconds() - begin) / rounds;
    if (p.rank() != 0) continue;
    const auto gbit = [&](double time) { return static_cast<double>(size) * others * 8e-9 / time; };
    std::printf("%9zu bytes to each: %9.1f us, %6.2f Gbit/s; many at once %9.1f us, %6.2f Gbit/s\n",
                size, waiting * 1e6, gbit(waiting), together * 1e6, gbit(together));
  }
  const double begin = seconds();
  for (int i = 0; i < 500; ++i) p.all_gather(std::string(1000, 'x'));
  if (p.rank() == 0) std::printf("all_gather of 1 kB: %.1f us\n", (seconds() - begin) / 500 * 1e6);
}

// Work of a processor that needs no memory.
double compute(double work) {
  const double begin = seconds();
  volatile double x = 1;
  for (double i = 0; i < work; ++i) x = x * 0.999 + 0.002;
  return seconds() - begin;
}

// Measures the cost of transfers for a process that computes meanwhile, and the hidden share.
void overlap(Processes& p) {
  constexpr std::size_t kSize = 4000000;
  std::string sent(kSize * index(p.size()), 'x'), received = sent;
  const Sizes sizes(index(p.size()), kSize);
  const auto transfer = [&](int count) {
    std::vector<Processes::Transfer> transfers;
    for (int i = 0; i < count; ++i) {
      transfers.push_back(p.all_to_all(bytes_of(sent), sizes, bytes_of(received), sizes));
    }
    return transfers;
  };
  const auto wait = [](std::vector<Processes::Transfer> transfers) {
    for (auto& one : transfers) one.wait();
  };
  wait(transfer(10));
  for (const int count : {20, 50}) {
    double begin = seconds();
    wait(transfer(count));
    const double alone = seconds() - begin;
    const double work = alone / compute(1e7) * 1e7;
    p.all_gather("");
    const double computed = compute(work);
    p.all_gather("");
    begin = seconds();
    auto transfers = transfer(count);
    const double slowed = compute(work);
    wait(std::move(transfers));
    const double both = seconds() - begin;
    if (p.rank() != 0) continue;
    std::printf(
        "%d x 4 MB: transfers %.1f ms (%.2f Gbit/s), computing %.1f ms; together %.1f ms, where "
        "computing took %.1f ms: %.0f %% hidden\n",
        count, alone * 1e3, count * kSize * 8e-9 * (p.size() - 1) / alone, computed * 1e3,
        both * 1e3, slowed * 1e3, (computed + alone - both) / alone * 100);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<Processes> p;
  try {
    p = Processes::join();
    const std::string name = argc > 1 ? argv[1] : "all";
    if (name == "all") all_cases(*p);
    if (name == "large") large(*p);
    if (name == "rate") rate(*p);
    if (name == "overlap") overlap(*p);
    if (p->rank() == 0) std::printf("%s: %d processes, ok\n", name.c_str(), p->size());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ranks: error: %s\n", error.what());
    if (p) p->abort(1);
    return 1;
  }
}
