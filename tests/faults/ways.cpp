#include "tapegrad/tests/faults/ways.h"

#include <exception>
#include <iostream>
#include <thread>

namespace faults {

std::vector<std::unique_ptr<Training>> make_trainings(const std::filesystem::path& root,
                                                      Training::Length length, const Args& more) {
  std::vector<std::unique_ptr<Training>> trainings;
  for (const char* program : {"train-gpt", "train-seq2seq"}) {
    for (const Start start : {Start::fresh, Start::resumed, Start::overwriting}) {
      trainings.push_back(std::make_unique<Training>(program, start, root, length, more));
    }
  }
  return trainings;
}

void run_jobs(const std::filesystem::path& root, std::size_t count,
              const std::function<void(std::size_t, Servers&)>& run) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&](unsigned number) {
    try {
      Servers servers(root, root / ("place" + std::to_string(number)));
      for (std::size_t job = next++; job < count; job = next++) run(job, servers);
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back(work, i);
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

void Failures::add(const std::string& where, const std::string& what) {
  constexpr int kMostShown = 20;
  if (what.empty() || ++count_ > kMostShown) return;
  std::cerr << where + ": " + what + "\n";
}

}  // namespace faults
