#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/optim/sharing.h"

namespace tapegrad::optim {

// The files that a meeting is made of are safetensors of u8: each tensor has the bytes of a
// parameter's numbers as they are sent (sent_values.h), and the metadata has the rest, a SHA-256 of
// all of it, and with a key an HMAC-SHA256 of that. Of meeting N, counted from 1:
//
//   meeting-N-GROUP.safetensors   what a group's weights are below the anchor: its difference
//   meeting-N.safetensors         what is subtracted from everybody's anchor: the step
//   momentum-N.safetensors        the outer momentum, in f32, where meetings are held

// How groups meet: the same for all files of all meetings.
struct MeetingTerms {
  std::vector<std::string> groups;
  CommDType sent = CommDType::f32;
  std::int64_t steps = 1;
  double learning_rate = 0, momentum = 0;

  bool operator==(const MeetingTerms&) const = default;
};

struct MeetingRecord {
  MeetingTerms terms;
  std::int64_t meeting = 1;
  // Of a difference: the group. Of a step: empty.
  std::string group = {};
  // Of a step: the groups that it is the mean of, in the order of terms.groups.
  std::vector<std::string> present = {};
  // What all have in common before this meeting: digest_of_start() for the first one, then the
  // digest of the last step.
  std::string base = {};
  std::string momentum = {};  // of a step: the digest of the momentum that it leaves
};

using PackedTensors = std::map<std::string, Tensor>;  // of u8, by parameter

struct MeetingFile {
  MeetingRecord record;
  PackedTensors tensors = {};
  std::string digest = {};  // set by write and read
};

std::filesystem::path difference_path(const std::filesystem::path& folder, std::int64_t meeting,
                                      std::string_view group);
std::filesystem::path step_path(const std::filesystem::path& folder, std::int64_t meeting);
std::filesystem::path momentum_path(const std::filesystem::path& folder, std::int64_t meeting);
// The number of the meeting that a file's name has between these two texts; nothing for others.
std::optional<std::int64_t> meeting_of(std::string_view name, std::string_view before,
                                       std::string_view after);

// As group_names() (hold_meeting.h), but of any number of groups.
std::vector<std::string> names_in(std::string_view text);

// Of names, shapes and values: groups that begin at the same weights have the same.
std::string digest_of_start(const NamedTensors& parameters);
// Of tensors' names and bytes.
std::string digest_of(const std::map<std::string, Tensor>& tensors);

// A tensor's numbers as they are sent, and those of a file, of which there are n. Error if one of
// them is not finite: it would come to be in everybody's weights.
Tensor packed(CommDType sent, const Tensor& values);
Tensor unpacked(const MeetingFile& file, const std::string& name, std::int64_t n);

// Replaces the file at `path`, signed if there is a key, and returns its digest.
std::string write_meeting_file(const std::filesystem::path& path, const MeetingFile& file,
                               const std::string& key);
// Error, for people, unless the file is complete, as its checksum says, and, if there is a key,
// signed by it. Nothing else of a file is looked at before. Whoever is in its `terms`, `present`
// and `group` has a name of a group. Links are refused, and files that memory has no room for.
// Tensors of other than so many `bytes`, if that is known, are not even read.
MeetingFile read_meeting_file(const std::filesystem::path& path, const std::string& key,
                              std::optional<std::int64_t> bytes = {});

}  // namespace tapegrad::optim
