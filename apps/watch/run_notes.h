#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::watch {

// In a run folder; training does not read it.
inline constexpr std::string_view kNotesFile = "notes.json";
inline constexpr std::size_t kMostNoteName = 100, kMostTags = 12, kMostTagBytes = 40;
inline constexpr std::size_t kMostNoteBytes = 4 << 10;

// A person's words about a run.
struct RunNotes {
  std::string name;  // shown in place of the folder's name; "": that name
  std::vector<std::string> tags;
  std::string text;

  bool operator==(const RunNotes&) const = default;
};

// {"name", "tags", "text"}
Json json_of_notes(const RunNotes& notes);
// Error if a member is missing, is of another type, is too long, or has characters that
// control a terminal; line breaks may be in the text. Blanks around names and tags, and tags that
// are empty or repeated, are left out.
RunNotes notes_of_json(const Json& json);

// Notes in a folder; none if the file is missing, broken, too long or a link.
RunNotes read_notes(const std::filesystem::path& folder);
// Error if the folder cannot be written to.
void write_notes(const std::filesystem::path& folder, const RunNotes& notes);

}  // namespace tapegrad::watch
