#include "tapegrad/apps/watch/run_notes.h"

#include <algorithm>

#include "tapegrad/base/file.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::watch {
namespace {

// With escapes, a text takes up to six times its bytes.
constexpr std::int64_t kMostFileBytes = 64 << 10;

bool has_controls(std::string_view text, bool is_line) {
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    const bool is_layout = c.code_point == '\n' || c.code_point == '\t';
    if (controls_terminal(c.code_point) && (is_line || !is_layout)) return true;
    text.remove_prefix(c.size);
  }
  return false;
}

std::string checked(const std::string& text, std::size_t most_bytes, const char* what,
                    bool is_line) {
  check(text.size() <= most_bytes, "{} has {} bytes, and {} are the most", what, text.size(),
        most_bytes);
  check(!has_controls(text, is_line), "{} has control characters", what);
  return text;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

}  // namespace

Json json_of_notes(const RunNotes& notes) {
  return {{"name", notes.name}, {"tags", notes.tags}, {"text", notes.text}};
}

RunNotes notes_of_json(const Json& json) {
  const std::filesystem::path where(kNotesFile);
  std::string name, text;
  std::vector<std::string> tags;
  get(where, json, "name", name);
  get(where, json, "tags", tags);
  get(where, json, "text", text);
  RunNotes notes{checked(trimmed(name), kMostNoteName, "the name", true), {}, {}};
  for (const std::string& each : tags) {
    const std::string tag = checked(trimmed(each), kMostTagBytes, "a tag", true);
    const bool known = std::find(notes.tags.begin(), notes.tags.end(), tag) != notes.tags.end();
    if (!tag.empty() && !known) notes.tags.push_back(tag);
    check(notes.tags.size() <= kMostTags, "there are more than {} tags", kMostTags);
  }
  notes.text = checked(text, kMostNoteBytes, "the note", false);
  return notes;
}

RunNotes read_notes(const std::filesystem::path& folder) {
  try {
    const std::filesystem::path path = folder / kNotesFile;
    return notes_of_json(parse_json<Json>(read_file(path, kMostFileBytes, Links::refused), 2));
  } catch (const Error&) {
    return {};
  }
}

void write_notes(const std::filesystem::path& folder, const RunNotes& notes) {
  write_json(folder / kNotesFile, json_of_notes(notes));
}

}  // namespace tapegrad::watch
