#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::optim {

// Local steps: each process of a group makes `steps` steps by itself, with an optimiser and batches
// of its own, and then all of them meet. The mean over the processes of what they have moved since
// they last met is the gradient g of an outer step, Nesterov's as in torch.optim.SGD, from the
// weights a of the last meeting, which all have in common:
//
//   g = mean(a − w)      b ← momentum·b + g      a ← a − learning_rate·(g + momentum·b)
//
// Everybody goes on from the new a. That is DiLoCo (Douillard et al.: DiLoCo: Distributed
// Low-Communication Training of Language Models, 2023, arXiv 2311.08105, algorithm 1, whose values
// of the outer step are the defaults). With momentum 0 and learning rate 1, it is local SGD, the
// mean of the weights. A single process may do the same: without momentum, that is Lookahead
// (Zhang et al., 2019).
// Groups in different places meet through files in the same way: see meetings/hold_meeting.h.

// The place of one of several groups that meet through files. A group is one process, or several
// that share each step (data parallel).
struct MeetingPlace {
  std::filesystem::path folder;     // for files that come and go
  std::string group;                // the name of this one, which is among
  std::vector<std::string> groups;  // those of all, in the order in which they are added up
  std::filesystem::path key = {};   // file of a key that all have, to sign with; empty: none
};

struct LocalSteps {
  std::int64_t steps = 1;
  double learning_rate = 0.7, momentum = 0.9;  // of the outer step
  // Processes that meet by MPI may do so as so many groups, of neighbours, as many in each: those
  // of a group share each step, and make the bits of one process. Nothing: each is by itself.
  std::optional<std::int64_t> groups = {};
  std::optional<MeetingPlace> place = {};  // nothing: by MPI
};

}  // namespace tapegrad::optim
