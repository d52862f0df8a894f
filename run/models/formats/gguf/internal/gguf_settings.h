#pragma once

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/run/models/formats/internal/settings_meaning.h"

namespace tapegrad::run {

// The keys of a file that pass through as they are: all of general.* and tokenizer.*, and those of
// ours that say how to read these; not the alignment, which is the writer's.
GgufKeys passed_keys(const GgufFile& file);

// The inverse of what meaning_of() finds in a file: chat templates, and the roles and numbers that
// GGUF has keys for. Keys that are there stay.
void add_meaning(GgufKeys& keys, const SettingsMeaning& meaning);
// The settings that a file's keys name.
SettingsMeaning meaning_of_gguf(const GgufFile& file);

}  // namespace tapegrad::run
