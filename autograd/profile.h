#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tape.h"

namespace tapegrad {

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

  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // By time, the longest first.
  std::vector<Entry> entries() const;

 private:
  friend class ProfiledOp;
  struct Key {
    std::string_view op;
    bool backward;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  std::vector<std::pair<Key, Entry>> entries_;
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

 private:
  Profile* profile_;  // null: there is none, or an op around this one counts already
  Profile::Key key_;
  double began_ = 0, flops_ = 0, bytes_ = 0;
};

}  // namespace tapegrad
