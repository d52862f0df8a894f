#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/optim/local_steps.h"

namespace tapegrad::optim {

// Meetings of groups in different places, through files that people or programs carry.
//
// Each group makes local steps (local_steps.h), and then writes a file of its difference, what its
// weights are below the anchor. One place, which need not be that of a group and needs no model,
// holds the meeting: of the differences that have arrived, it takes the mean, makes the outer step,
// and writes it into a file. Each group subtracts that step from its anchor, and goes on from
// there. So meetings of G groups make the bits of G processes by MPI.
//
// A group that is missing is left out of the mean. The steps that it made do not count, but it
// takes the outer step as all others do, even several at once, and is in time at the next meeting
// again. Its optimiser goes on with what it kept.
//
// A meeting's difference names the last outer step by its SHA-256, and an outer step the one
// before: files of another meeting, of another model or of another line of meetings fit nowhere.

// The names in a text such as "a,b,c". Error unless they are two or more, all different, and of
// letters, digits, "_" and "-" alone, 32 at most.
std::vector<std::string> group_names(std::string_view text);

// The key in a file: its text without white space at the end. Error if it has less than 32 bytes.
// Empty path: no key.
std::string meeting_key(const std::filesystem::path& file);

// The differences in a folder for the next meeting.
struct Arrivals {
  std::int64_t meeting = 1;
  std::vector<std::string> present, missing;  // empty, both, if no file tells who there is
  std::vector<std::string> refused;           // why a file does not count, for people
};
// Reads and checks all of their files. Error if two that are sound do not fit together, of which
// none is known to be right: the first meeting's groups began at different weights, or with
// different terms.
Arrivals find_arrivals(const std::filesystem::path& folder, const std::string& key);

struct HeldMeeting {
  Arrivals arrivals;
  std::filesystem::path step;  // the file for all groups
};
enum class MissingGroups { left_out, refused };
// Holds the meeting of those who are present. Errors: nobody is; somebody is missing, and that is
// refused; the momentum of the last meeting is not in the folder; a sum is too large for floats. A
// call that is stopped leaves either no new step, or the whole one: the same call may be repeated.
// One call at a time, and always in the same folder.
HeldMeeting hold_meeting(const std::filesystem::path& folder, const std::string& key,
                         MissingGroups missing = MissingGroups::left_out);

}  // namespace tapegrad::optim
