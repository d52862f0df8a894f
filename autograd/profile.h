#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tapegrad/autograd/module_names.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {

struct ProfileOptions {
  // Notes each op with its time, and what each thread did, for timeline(). Otherwise sums alone.
  bool timeline = false;
  // Names for the modules of its ops, such as nn::Params::parameters(): a parameter's module
  // is its name without the last part.
  std::span<const std::pair<std::string, Tensor>> names = {};
};

// Where the time of a computation goes: while one lives, it notes each op that its thread runs and
// each vjp that a tape of its thread runs. An op counts with all the ops inside it. The newest
// living profile of a thread gets everything.
class Profile {
 public:
  struct Entry {
    std::string name;  // the op's; a vjp's is "gelu backward"
    std::int64_t calls = 0;
    double seconds = 0;
    double flops = 0;  // of matrix products: multiplications and additions
    double bytes = 0;  // of the inputs and outputs
  };

  // Something that began and ended. Times are seconds since the profile began.
  struct Event {
    std::string_view name;  // of an op, or of a part: see ProfiledPart
    bool is_part = false;
    bool backward = false;
    double begin = 0, end = 0;
    double flops = 0, bytes = 0;
    // The module of the parameter that the op works on; an op without one has the parameter of the
    // op before it in this part. A vjp's is its op's. Empty: there was none yet, or the profile
    // knows no names.
    std::string module = {};
    bool has_parameter = false;
    const void* matrix = nullptr;  // the first packed one that the op multiplies by
  };

  struct Timeline {
    std::vector<Event> events;  // by their begin; parts stand before what is in them
    // When each thread worked in parallel loops, by thread; the first is the profile's.
    std::vector<std::vector<LoopLog::Part>> threads;
    std::int64_t left_out = 0;  // events beyond kMostEvents
  };
  static constexpr std::size_t kMostEvents = std::size_t{1} << 17;

  explicit Profile(const ProfileOptions& options = {});
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Sorted by time, the longest first.
  std::vector<Entry> entries() const;
  // Error unless options.timeline.
  Timeline timeline() const;

 private:
  friend class ProfiledOp;
  friend class ProfiledPart;
  struct Key {
    std::string_view op;
    bool backward;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Times {
    double origin;
    ModuleNames modules;
    std::unordered_map<std::uint64_t, ModuleNames::Module> of_results;  // by what ops made
    std::vector<Event> events;
    std::int64_t left_out = 0;
    const void* matrix = nullptr;  // of the op that runs
    LoopLog loops;

    void add(Event event);
  };

  std::vector<std::pair<Key, Entry>> entries_;
  std::unique_ptr<Times> times_;  // null without a timeline
  Profile* before_;
  bool busy_ = false;  // inside an op
};

// The time between this and its end is one op's or vjp's. Does nothing if no profile lives.
class ProfiledOp {
 public:
  ProfiledOp(std::string_view op, bool backward);
  ~ProfiledOp();
  ProfiledOp(const ProfiledOp&) = delete;
  ProfiledOp& operator=(const ProfiledOp&) = delete;
  void touches(Inputs tensors);
  // The inputs tell the module of a forward; the first output tells the module of its vjp.
  void made(Inputs inputs, Inputs outputs);
  // Says that a vjp is of the op that made this.
  void is_of(std::uint64_t output);
  // The op of this thread that runs multiplies by a quantised matrix.
  static void multiplies_by(const void* matrix);

 private:
  Profile* profile_;  // null: there is none, or an op around this one counts already
  Profile::Key key_;
  ModuleNames::Module module_;
  double began_ = 0, flops_ = 0, bytes_ = 0;
};

// The time between this and its end is a part of a computation, such as "forward", in the timeline
// of the living profile, if there is one. `name` must live as long as the profile.
class ProfiledPart {
 public:
  explicit ProfiledPart(std::string_view name);
  ~ProfiledPart();
  ProfiledPart(const ProfiledPart&) = delete;
  ProfiledPart& operator=(const ProfiledPart&) = delete;

 private:
  Profile* profile_;
  std::string_view name_;
  double began_ = 0;
};

}  // namespace tapegrad
