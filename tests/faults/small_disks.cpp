#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iostream>

#include "tapegrad/tests/faults/ways.h"

namespace faults {
namespace {

namespace fs = std::filesystem;

enum class Limit { file_bytes, pages, files, read_only };

struct Job {
  Training* training;
  Limit limit;
  long amount;
};

std::string where_of(const Job& job) {
  constexpr const char* names[] = {"bytes for a file", "free pages", "free files",
                                   "that is read-only"};
  return job.training->name() + ", a disk of " + std::to_string(job.amount) + " " +
         names[static_cast<int>(job.limit)];
}

// Lets this process mount file systems that no other one sees. False if the system forbids that.
bool may_mount() {
  const uid_t user = ::getuid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// A small disk at a folder.
class Mount {
 public:
  explicit Mount(const fs::path& folder) : folder_(folder) { set("size=16m", 0); }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  ~Mount() { ::umount2(folder_.c_str(), MNT_DETACH); }

  // Leaves room for so much more than there is.
  void limit(const Job& job) {
    struct statvfs now {};
    if (::statvfs(folder_.c_str(), &now) != 0) throw std::runtime_error("no statvfs");
    const auto with = [&](const char* name, unsigned long used) {
      set(name + std::to_string(used + static_cast<unsigned long>(job.amount)), MS_REMOUNT);
    };
    if (job.limit == Limit::pages) with("nr_blocks=", now.f_blocks - now.f_bfree);
    if (job.limit == Limit::files) with("nr_inodes=", now.f_files - now.f_ffree);
    if (job.limit == Limit::read_only) set("", MS_REMOUNT | MS_RDONLY);
  }
  void make_room() { set("size=16m,nr_inodes=1000", MS_REMOUNT); }

 private:
  void set(const std::string& options, unsigned long flags) {
    if (::mount("none", folder_.c_str(), "tmpfs", flags, options.c_str()) != 0) {
      throw std::runtime_error("cannot mount " + folder_.string() + " with " + options + ": " +
                               std::strerror(errno));
    }
  }
  fs::path folder_;
};

// How many runs ended well, and how many found no room.
struct Counts {
  std::atomic<int> fits{0}, fails{0};
};

std::string try_job(const Job& job, Servers& servers, Counts& counts) {
  const Training& training = *job.training;
  const fs::path& work = servers.place().work;
  std::unique_ptr<Mount> mount;
  if (job.limit != Limit::file_bytes) mount = std::make_unique<Mount>(work);
  write_files(work, training.before());
  if (mount) mount->limit(job);
  const Outcome r = servers.run(training.program(), training.command(),
                                {.file_limit = job.limit == Limit::file_bytes ? job.amount : 0});
  if (mount) mount->make_room();
  ++(r.code == 0 ? counts.fits : counts.fails);
  const char* reason = job.limit == Limit::file_bytes  ? "File too large"
                       : job.limit == Limit::read_only ? "Read-only file system"
                                                       : "No space left on device";
  // The limit is one for stderr, too.
  const bool cut_short = job.limit == Limit::file_bytes && job.amount < 200;
  const bool told =
      r.code == 0 || (r.code == 1 && (cut_short || r.err.find(reason) != std::string::npos ||
                                      r.err.find("are free there") != std::string::npos));
  if (!told) return "ends badly, code " + std::to_string(r.code) + ": " + r.err;
  if (job.limit == Limit::read_only && read_files(work) != training.before()) {
    return "changes what cannot be changed";
  }
  return training.finish(work, training.promised(r.out), servers.runner(training));
}

}  // namespace

int fill_disks(const Options& options) {
  const bool mounts = may_mount();
  const TempFolder root;
  const auto trainings =
      make_trainings(root.path(), {.steps = 2, .interval = 1}, {"--threads", "1"});
  std::vector<Job> jobs;
  const auto add = [&](Limit limit, long first, long last, long stride) {
    for (const auto& training : trainings) {
      for (long n = first; n <= last; n += stride) jobs.push_back({training.get(), limit, n});
    }
  };
  add(Limit::file_bytes, 1, 60000, options.is_long ? 500 : 4000);
  if (mounts) {
    add(Limit::pages, 1, 60, options.is_long ? 1 : 4);
    add(Limit::files, 1, 12, options.is_long ? 1 : 2);
    add(Limit::read_only, 0, 0, 1);
  }
  Failures failures;
  Counts counts;
  run_jobs(root.path(), jobs.size(), [&](std::size_t i, Servers& servers) {
    failures.add(where_of(jobs[i]), try_job(jobs[i], servers, counts));
  });
  const std::string disks = mounts ? "" : " (file size limits alone: mounts are not allowed here)";
  std::cout << "disk: " << jobs.size() << " runs" << disks << ", " << counts.fails
            << " without room and " << counts.fits << " with enough: " << failures.count()
            << " failures\n";
  if (counts.fails == 0 || counts.fits == 0) failures.add("all disks", "end in the same way");
  return failures.exit_code();
}

}  // namespace faults
